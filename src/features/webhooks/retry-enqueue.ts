import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { QueueItem } from '../../platform/work/queue-table.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import { exponentialBackoff } from '../../platform/work/standard-queue.ts'
import { worker } from '../../platform/work/worker.ts'
import { type DueEvent, dueColumnsSql, enqueueTogether, staleSql } from './enqueue-deliveries.ts'
import { announcedColumnsSql, isSubscribedSql } from './fan-out.ts'
import { firstRetryMs, maxRetryMs, missedQueue, type WebhookRef } from './missed-webhooks.ts'

export const webhookEnqueueRetry = worker({
  name: missedQueue.name,
  about: 'Writes webhooks to the log that could not be written before',
  trigger: { everyMs: 1_000 },
  per: 'process',
  process: 'server',
})

const missedSql = `
  select ${dueColumnsSql}, ${staleSql} as stale
    from read.webhooks_due e left join read.webhook_accounts a on a.account_id = e.account_id
   where not e.enqueued and e.endpoint_id = $1::text and e.event = $2::text and e.resource = $3::text
  union all
  select ${announcedColumnsSql}, ${staleSql} as stale
    from read.webhook_announcements n
    join read.webhook_subscriptions e on e.endpoint_id = $1::text and ${isSubscribedSql}
    left join read.webhook_accounts a on a.account_id = e.account_id
   where n.position = $4::bigint and n.event = $2::text and n.resource = $3::text`

/** Retries failed webhooks, each endpoint on its own, until they are in the log. */
export const startEnqueueRetries = (deps: {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly clock: Clock
  readonly logger: Logger
}): RunningQueue => {
  const { workers, pool, clock } = deps
  return workers.start<QueueItem & WebhookRef>({
    worker: webhookEnqueueRetry,
    queue: missedQueue,
    atOnce: { total: 4, each: 1 },
    longestMs: 30_000,
    schedule: exponentialBackoff(firstRetryMs, maxRetryMs),
    work: async ({ endpoint_id, event, resource, position }) => {
      const { rows } = await pool.query<DueEvent>({
        name: 'webhooks-missed-due',
        text: missedSql,
        values: [endpoint_id, event, resource, position],
      })
      if (rows.length === 0) return { kind: 'done', result: 'nothing is due' }
      await enqueueTogether(deps, rows, clock())
      return { kind: 'done', result: 'enqueued' }
    },
  })
}
