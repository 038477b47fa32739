import { hot } from '../../../../projections/groups.ts'
import type { QueueTable } from '../../../platform/work/queue/table.ts'
import type { WebhookEventName } from '../event-names.ts'

/** One delivery that is due, as its row tells it. */
export type DueDelivery = {
  readonly delivery_id: string
  readonly endpoint_id: string
  readonly account_id: string
  readonly event: WebhookEventName
  readonly resource: string
  readonly data: string
  readonly round: number
  readonly revision: number
  readonly attempts: number
  readonly queued_at: string
}

/**
 * An owner is an endpoint. A delivery is sent once the read models have passed its event, so that a receiver that asks sees
 * what it was told of. What is due at the same instant, as after a redelivery of many, leaves in the order of its events.
 */
export const deliveryQueue: QueueTable = {
  name: 'webhooks',
  table: 'work.webhook_deliveries',
  key: ['delivery_id'],
  owner: 'endpoint_id',
  columns: ['account_id', 'event', 'resource', 'data', 'round', 'revision', 'queued_at'],
  ready: () => `d.position <= (select position from engine.checkpoints where name = '${hot.name}')`,
  order: () => 'd.due_at, d.queued_at, d.position',
  dead: "d.status = 'abandoned'",
  why: "'abandoned after ' || d.attempts || ' attempts'",
}
