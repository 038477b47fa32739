import type pg from 'pg'
import type { Room } from '../../platform/work/fair-queue.ts'
import type { Callback } from './port.ts'

/** A stored callback whose turn it is. */
export type InboxEntry = {
  readonly gatewayId: string
  readonly eventId: string
  readonly reference: string
  readonly attempts: number
}

/** The durable inbox of callbacks: at least once in, each event once. */
export type Inbox = {
  /** Resolves when it is durable. False: this event was stored before. */
  store(gatewayId: string, callback: Callback & { readonly reference: string }): Promise<boolean>
  /** Claims entries that are due, for this caller alone for half a minute. An owner is a gateway. */
  claim(room: Room<string>): Promise<readonly InboxEntry[]>
  done(entry: InboxEntry, outcome: string): Promise<void>
  /** Tried again later: after a second, doubling to five minutes. */
  failed(entry: InboxEntry, outcome: string): Promise<void>
  /** Drops what was done more than 30 days ago, longer than any provider sends an event again. */
  sweep(): Promise<void>
}

const leaseS = 30
const maxBackoffS = 300
const keptDays = 30
/** Rows of one statement, so that it never holds anything up for long. */
const sweptAtOnce = 1_000

export const createInbox = (pool: pg.Pool): Inbox => ({
  store: async (gatewayId, { eventId, reference }) => {
    const { rowCount } = await pool.query({
      name: 'store-callback',
      text: `insert into work.gateway_inbox (gateway_id, event_id, reference)
             values ($1::text, $2::text, $3::text) on conflict do nothing`,
      values: [gatewayId, eventId, reference],
    })
    return rowCount === 1
  },
  claim: async ({ total, each, underWay }) => {
    const { rows } = await pool.query<{
      gateway_id: string
      event_id: string
      reference: string
      attempts: number
    }>({
      name: 'claim-callbacks',
      text: `with gateways as materialized (
               select distinct gateway_id, $2::integer - coalesce(count, 0) as room
                 from work.gateway_inbox
                 left join unnest($3::text[], $4::integer[]) as under_way (gateway_id, count) using (gateway_id)
                where done_at is null and next_at <= clock_timestamp()
             ), due as (
               select entry.gateway_id, entry.event_id
                 from gateways cross join lateral (
                        select gateway_id, event_id, next_at from work.gateway_inbox inbox
                         where inbox.gateway_id = gateways.gateway_id
                           and done_at is null and next_at <= clock_timestamp()
                         order by next_at limit gateways.room for update skip locked
                      ) entry
                order by entry.next_at limit $1::integer
             )
             update work.gateway_inbox entry
                set attempts = attempts + 1, next_at = clock_timestamp() + make_interval(secs => ${leaseS})
               from due where entry.gateway_id = due.gateway_id and entry.event_id = due.event_id
             returning entry.gateway_id, entry.event_id, entry.reference, entry.attempts`,
      values: [total, each, [...underWay.keys()], [...underWay.values()]],
    })
    return rows.map((row) => ({
      gatewayId: row.gateway_id,
      eventId: row.event_id,
      reference: row.reference,
      attempts: row.attempts,
    }))
  },
  done: async ({ gatewayId, eventId }, outcome) => {
    await pool.query({
      name: 'callback-done',
      text: `update work.gateway_inbox set done_at = clock_timestamp(), outcome = $3::text
              where gateway_id = $1::text and event_id = $2::text`,
      values: [gatewayId, eventId, outcome],
    })
  },
  failed: async ({ gatewayId, eventId, attempts }, outcome) => {
    await pool.query({
      name: 'callback-failed',
      text: `update work.gateway_inbox
                set next_at = clock_timestamp() + make_interval(secs => $3::integer), outcome = $4::text
              where gateway_id = $1::text and event_id = $2::text`,
      values: [gatewayId, eventId, Math.min(maxBackoffS, 2 ** Math.min(attempts - 1, 10)), outcome],
    })
  },
  sweep: async () => {
    for (;;) {
      const { rowCount } = await pool.query({
        name: 'sweep-callbacks',
        text: `delete from work.gateway_inbox where ctid in (
                 select ctid from work.gateway_inbox
                  where done_at < clock_timestamp() - make_interval(days => ${keptDays}) limit ${sweptAtOnce})`,
      })
      if ((rowCount ?? 0) < sweptAtOnce) return
    }
  },
})
