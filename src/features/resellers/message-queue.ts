import type pg from 'pg'
import { hot } from '../../../projections/groups.ts'
import type { OrderNotice } from '../../../projections/order-payments.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId, CustomerId, OrderId } from '../../kernel/ids.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'

/** A message about an order: to its customer, or about a short wallet to the reseller. */
export type Message = {
  readonly order_id: OrderId
  readonly account_id: AccountId
  readonly customer_id: CustomerId
  readonly notice: OrderNotice
  readonly attempts: number
}

/** One permanent row for each notice of an order. The queue owner is the reseller. `result` is 'sent', or why it was not sent. */
export const messageQueue: QueueTable = {
  name: 'messages',
  table: 'work.messages',
  key: ['order_id', 'notice'],
  owner: 'account_id',
  longestWaitMs: 24 * 3_600_000,
  columns: ['customer_id'],
}

const collectedPerRun = 500

/** Queues the messages of order notices, each exactly once. Returns how many were added. */
export const collectMessages = async (pool: pg.Pool, nowMs: number): Promise<number> => {
  const { rows } = await pool.query<{ added: number }>({
    name: 'collect-messages',
    text: `with cursor as (select * from work.message_cursor where single limit 1 for update),
           at as (select k.lineage, case when c.lineage = k.lineage then c.position else 0 end as position
                    from cursor c, engine.checkpoints k where k.name = $2::text),
           next as (select o.* from read.order_notices o, at where o.position > at.position
                     order by o.position limit ${collectedPerRun}),
           taken as (insert into work.messages (order_id, notice, account_id, customer_id, due_at)
                     select order_id, notice, account_id, customer_id, $1::timestamptz from next
                     on conflict (order_id, notice) do nothing),
           moved as (update work.message_cursor c set position = n.last, lineage = at.lineage
                       from (select max(position) as last from next) n, at
                      where c.single and n.last is not null)
           select count(*)::bigint as added from next`,
    values: [isoTime(nowMs), hot.name],
  })
  return rows[0]?.added ?? 0
}
