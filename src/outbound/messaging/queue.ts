import type pg from 'pg'
import { hot } from '../../../projections/groups.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId, CustomerId, OrderId } from '../../kernel/ids.ts'
import type { Room } from '../../platform/work/fair-queue.ts'

/** A message that is due and for a while this process's to send. */
export type DueMessage = {
  readonly order_id: OrderId
  readonly account_id: AccountId
  readonly customer_id: CustomerId
  readonly outcome: 'placed' | 'failed'
  /** The one that is about to be made included. */
  readonly attempts: number
}

const collectedARun = 500
/** Longer than a provider is waited for. After it another process sends what a dead one had claimed. */
const leaseMs = 60_000

/** Takes over the orders that customers are to be told of, each once for ever. Gives how many came. */
export const collectMessages = async (pool: pg.Pool, nowMs: number): Promise<number> => {
  const { rows } = await pool.query<{ came: number }>({
    name: 'collect-messages',
    text: `with kept as (select * from work.message_cursor where single limit 1 for update),
           at as (select k.lineage, case when c.lineage = k.lineage then c.position else 0 end as position
                    from kept c, engine.checkpoints k where k.name = $2::text),
           next as (select o.* from read.order_outcomes o, at where o.position > at.position
                     order by o.position limit ${collectedARun}),
           taken as (insert into work.messages (order_id, account_id, customer_id, outcome, next_at)
                     select order_id, account_id, customer_id, outcome, $1::timestamptz from next
                     on conflict (order_id) do nothing),
           moved as (update work.message_cursor c set position = n.last, lineage = at.lineage
                       from (select max(position) as last from next) n, at
                      where c.single and n.last is not null)
           select count(*)::bigint as came from next`,
    values: [isoTime(nowMs), hot.name],
  })
  return rows[0]?.came ?? 0
}

/** Messages whose turn it is, for this process alone until their lease is over. An owner is a reseller. */
export const claimMessages = async (
  pool: pg.Pool,
  { total, each, underWay }: Room<AccountId>,
  nowMs: number,
): Promise<readonly DueMessage[]> => {
  const { rows } = await pool.query<DueMessage>({
    name: 'claim-messages',
    text: `with resellers as materialized (
             select distinct account_id, $4::integer - coalesce(count, 0) as room
               from work.messages
               left join unnest($5::text[], $6::integer[]) as under_way (account_id, count) using (account_id)
              where done_at is null and next_at <= $1::timestamptz
           ), due as (
             select entry.order_id
               from resellers cross join lateral (
                      select order_id, next_at from work.messages own
                       where own.account_id = resellers.account_id
                         and done_at is null and next_at <= $1::timestamptz
                       order by next_at limit resellers.room for update skip locked
                    ) entry
              order by entry.next_at limit $3::integer
           )
           update work.messages m set attempts = m.attempts + 1, next_at = $2::timestamptz
             from due where m.order_id = due.order_id
           returning m.order_id, m.account_id, m.customer_id, m.outcome, m.attempts`,
    values: [
      isoTime(nowMs),
      isoTime(nowMs + leaseMs),
      total,
      each,
      [...underWay.keys()],
      [...underWay.values()],
    ],
  })
  return rows
}

/** The message is done with: `sent`, or why it never will be. */
export const finishMessage = async (
  pool: pg.Pool,
  orderId: OrderId,
  result: string,
  nowMs: number,
): Promise<void> => {
  await pool.query({
    name: 'finish-message',
    text: 'update work.messages set done_at = $2::timestamptz, result = $3::text where order_id = $1::text',
    values: [orderId, isoTime(nowMs), result],
  })
}

/** It is sent again at that time. */
export const postponeMessage = async (
  pool: pg.Pool,
  orderId: OrderId,
  why: string,
  atMs: number,
): Promise<void> => {
  await pool.query({
    name: 'postpone-message',
    text: 'update work.messages set next_at = $2::timestamptz, result = $3::text where order_id = $1::text',
    values: [orderId, isoTime(atMs), why],
  })
}
