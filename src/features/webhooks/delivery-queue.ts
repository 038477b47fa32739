import type { Logger } from 'pino'
import { hot } from '../../../projections/groups.ts'
import { payloadOf } from '../../../projections/webhook-queue.ts'
import type { WebhookEventName } from '../../domain/webhooks/events.ts'
import { deliveryFold } from '../../domain/webhooks/fold.ts'
import { deliveryStream, type StreamName } from '../../kernel/streams.ts'
import { createLogStates } from '../../platform/commands/log-states.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Db } from '../../platform/work/queue-leases.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { WebhookValues } from './webhook-vault.ts'

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

/** The longest wait between two attempts (docs/http-api.md, "Webhooks and notices"). */
export const maxDelayMs = 6 * 60 * 60 * 1000

/**
 * An owner is an endpoint. A delivery is sent once the read models have passed its event, so that a receiver that asks sees
 * what it was told of. What is due at the same instant, as after a redelivery of many, leaves in the order of its events.
 */
export const deliveryQueue: QueueTable = {
  name: 'webhooks',
  table: 'work.webhook_deliveries',
  key: ['delivery_id'],
  owner: 'endpoint_id',
  longestWaitMs: maxDelayMs,
  columns: ['account_id', 'event', 'resource', 'data', 'round', 'revision', 'queued_at'],
  ready: () => `d.position <= (select position from engine.checkpoints where name = '${hot.name}')`,
  order: () => 'd.due_at, d.queued_at, d.position',
  dead: "d.status = 'abandoned'",
  why: "'abandoned after ' || d.attempts || ' attempts'",
}

/** The texts of a low plan that no event has. */
const textsOf = ({ event, data }: DueDelivery): Parameters<typeof payloadOf>[1] => {
  const { label, product } = event === 'plan.low_traffic' ? JSON.parse(data) : {}
  return { label: String(label), product: String(product) }
}

/** Streams that are kept between attempts. */
const maxKept = 2_000

/**
 * Finds a delivery in the log: whoever may write to the database can add and change rows of the queue, and what is sent
 * is signed with the receiver's secret. Only the texts of a low plan that no event has, its label and the name of its
 * product, come from the row.
 * @returns null when no event enqueued it for this endpoint
 * @throws what the log throws, of a delivery that was never read here
 */
export const createEnqueuedDeliveries = (log: Pick<EventLog, 'readStreams'>) => {
  const stateOf = createLogStates(
    log,
    (stream) => ({ stream: stream as StreamName, fold: deliveryFold }),
    maxKept,
  )
  return async (delivery: DueDelivery): Promise<DueDelivery | null> => {
    const { endpoint_id, event, resource } = delivery
    const { state } = await stateOf(deliveryStream(endpoint_id, event, resource))
    if (state?.enqueued.deliveryId !== delivery.delivery_id) return null
    const { accountId, data } = state.enqueued
    return { ...delivery, account_id: accountId, data: payloadOf({ event, data }, textsOf(delivery)) }
  }
}

/** Where to send, with what to sign. */
export type Destination = {
  readonly url: string
  readonly secret: string
  readonly previousSecret: string | null
  readonly previousUntil: string | null
}

/** An endpoint as it is set up now. */
export type Endpoint = {
  /** The id of the URL that `destination` is; null where there is none. */
  readonly urlId: string | null
  /**
   * `removed`: the endpoint is no more. `unreadable`: nothing can be sent just now, for it is just being removed or what is
   * kept of it cannot be opened.
   */
  readonly destination: Destination | 'removed' | 'unreadable'
}

const destinationsSql = `
  select e.endpoint_id, e.url_id, e.secret_id, e.previous_secret_id, e.previous_until,
         u.sealed as url, s.sealed as secret, p.sealed as previous
    from read.webhook_endpoints e
    left join vault.webhook_values u on u.value_id = e.url_id
    left join vault.webhook_values s on s.value_id = e.secret_id
    left join vault.webhook_values p on p.value_id = e.previous_secret_id
   where e.endpoint_id = any ($1::text[])`

type DestinationRow = {
  readonly endpoint_id: string
  readonly url_id: string
  readonly secret_id: string
  readonly previous_secret_id: string | null
  readonly previous_until: string | null
  readonly url: Buffer | null
  readonly secret: Buffer | null
  readonly previous: Buffer | null
}

/** Reads endpoints by their ids, in one statement. */
export const createDestinations = (deps: {
  readonly values: Pick<WebhookValues, 'open'>
  readonly logger: Logger
}) => {
  const { values, logger } = deps

  const opened = (row: DestinationRow, url: Buffer, secret: Buffer): Destination => {
    const { endpoint_id: endpointId, previous, previous_secret_id: previousId } = row
    const hasPrevious = previousId !== null && previous !== null
    return {
      url: values.open(row.url_id, endpointId, url),
      secret: values.open(row.secret_id, endpointId, secret),
      previousSecret: hasPrevious ? values.open(previousId, endpointId, previous) : null,
      previousUntil: row.previous_until,
    }
  }

  const destinationOf = (row: DestinationRow | undefined): Endpoint['destination'] => {
    if (row === undefined) return 'removed'
    const { endpoint_id: endpointId, url, secret } = row
    if (url === null || secret === null) return 'unreadable'
    try {
      return opened(row, url, secret)
    } catch (error) {
      // A damaged value is its own endpoint's trouble, and not that of all that were claimed with it.
      logger.error({ err: error, endpointId }, 'what is kept of a webhook endpoint cannot be opened')
      return 'unreadable'
    }
  }

  return async (db: Db, endpointIds: readonly string[]): Promise<(endpointId: string) => Endpoint> => {
    const { rows } = await db.query<DestinationRow>({
      name: 'webhooks-destinations',
      text: destinationsSql,
      values: [endpointIds],
    })
    const byId = new Map(rows.map((row) => [row.endpoint_id, row]))
    return (endpointId) => {
      const row = byId.get(endpointId)
      return { urlId: row?.url_id ?? null, destination: destinationOf(row) }
    }
  }
}
