import type pg from 'pg'
import type { Clock } from '../../../kernel/clock.ts'
import type { EventLog } from '../../../platform/eventstore/port.ts'
import { type DueEvent, enqueue, staleSql } from './enqueue.ts'
import { enqueuingSince } from './enqueuing.ts'

/** Events of one append. */
const page = 200

type DueRow = DueEvent & { readonly position: number }

const dueSql = `
  select e.endpoint_id, e.account_id, e.event, e.resource, e.data, e.order_revision, e.cause_id, e.correlation_id,
         e.caused_at, e.position, ${staleSql} as stale
    from (select * from read.webhooks_due
           where not enqueued and (position, endpoint_id, resource) > ($1::bigint, $2::text, $3::text)
           order by position, endpoint_id, resource limit ${page}) e
    left join read.webhook_accounts a on a.account_id = e.account_id
   order by e.position, e.endpoint_id, e.resource`

/**
 * Enqueues what is due for accounts, a page at a time in the order of the causes. A row stands until its event is folded,
 * so what this process has enqueued is passed over by its position; whoever starts anew enqueues it again and changes
 * nothing. Each call gives whether there may be more.
 */
export const openDueEvents = async (deps: {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly clock: Clock
  readonly onEnqueued: () => void
}): Promise<() => Promise<boolean>> => {
  const { pool, log, clock, onEnqueued } = deps
  const { dueAfter } = await enqueuingSince(pool)
  let after = { position: dueAfter + 1, endpoint_id: '', resource: '' }
  return async () => {
    const { rows } = await pool.query<DueRow>({
      name: 'webhooks-due-events',
      text: dueSql,
      values: [after.position, after.endpoint_id, after.resource],
    })
    const last = rows.at(-1)
    if (last === undefined) return false
    await enqueue(log, rows, clock())
    onEnqueued()
    after = last
    return rows.length === page
  }
}
