import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'

/** A webhook to enqueue: the event at a position, for one endpoint. */
export type WebhookRef = {
  readonly endpoint_id: string
  readonly event: string
  readonly resource: string
  /** Position of its cause. */
  readonly position: number
}

export const firstRetryMs = 60_000
export const maxRetryMs = 3_600_000

/** Webhooks that could not be enqueued. The rows identify them; payload and receiver come from the read tables. */
export const missedQueue: QueueTable = {
  name: 'webhook-enqueue-retries',
  table: 'work.webhook_enqueue_retries',
  key: ['endpoint_id', 'event', 'resource'],
  owner: 'endpoint_id',
  longestWaitMs: maxRetryMs,
  columns: ['position'],
}

/** Stores webhooks that could not be enqueued, so that each is tried again. Existing rows do not change. */
export const keepMissed = async (
  pool: pg.Pool,
  missed: readonly WebhookRef[],
  nowMs: number,
): Promise<void> => {
  await pool.query({
    name: 'webhooks-missed',
    text: `insert into work.webhook_enqueue_retries as r (endpoint_id, event, resource, position, status, due_at)
           select m.*, 'pending', $5::timestamptz
             from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as m (endpoint_id, event, resource, position)
           on conflict (endpoint_id, event, resource) do update
             set position = excluded.position, status = 'pending', due_at = excluded.due_at, attempts = 0,
                 finished_at = null, result = null
             where r.status <> 'pending'`,
    values: [
      missed.map(({ endpoint_id }) => endpoint_id),
      missed.map(({ event }) => event),
      missed.map(({ resource }) => resource),
      missed.map(({ position }) => position),
      isoTime(nowMs + firstRetryMs),
    ],
  })
}

/** Deletes rows of webhooks that were enqueued before an instant. */
export const deleteOldMissed = async (pool: pg.Pool, beforeMs: number): Promise<void> => {
  await pool.query({
    name: 'webhooks-missed-forget',
    text: 'delete from work.webhook_enqueue_retries where finished_at < $1::timestamptz',
    values: [isoTime(beforeMs)],
  })
}
