import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { QueueTable } from '../../platform/work/queue/table.ts'
import type { Callback } from './port.ts'

/** A stored callback. */
export type InboxEntry = {
  readonly gateway_id: string
  readonly event_id: string
  readonly reference: string
  readonly attempts: number
}

/** An owner is a gateway: one that hangs holds up no other. */
export const inboxQueue: QueueTable = {
  name: 'payment-callbacks',
  table: 'work.gateway_inbox',
  key: ['gateway_id', 'event_id'],
  owner: 'gateway_id',
  columns: ['reference'],
}

/** The durable inbox of callbacks: at least once in, each event once. `take-callbacks.ts` works it off. */
export type Inbox = {
  /** Resolves when it is durable. False: this event was stored before. */
  store(gatewayId: string, callback: Callback & { readonly reference: string }): Promise<boolean>
  /** Drops what was done more than 30 days ago, longer than any provider sends an event again. */
  sweep(): Promise<void>
}

const keptDays = 30
/** Rows of one statement, so that it never holds anything up for long. */
const sweptAtOnce = 1_000

export const createInbox = (pool: pg.Pool, clock: Clock): Inbox => ({
  store: async (gatewayId, { eventId, reference }) => {
    const { rowCount } = await pool.query({
      name: 'store-callback',
      text: `insert into work.gateway_inbox (gateway_id, event_id, reference, due_at)
             values ($1::text, $2::text, $3::text, $4::timestamptz) on conflict do nothing`,
      values: [gatewayId, eventId, reference, isoTime(clock())],
    })
    return rowCount === 1
  },
  sweep: async () => {
    for (;;) {
      const { rowCount } = await pool.query({
        name: 'sweep-callbacks',
        text: `delete from work.gateway_inbox where ctid in (
                 select ctid from work.gateway_inbox
                  where finished_at < $1::timestamptz - make_interval(days => ${keptDays}) limit ${sweptAtOnce})`,
        values: [isoTime(clock())],
      })
      if ((rowCount ?? 0) < sweptAtOnce) return
    }
  },
})

/** What callbacks of a gateway came within the days that they are kept; `lastAt` is ISO 8601 UTC, null: none. */
export type CallbacksSeen = {
  readonly gatewayId: string
  readonly lastAt: string | null
  readonly waiting: number
}

/** The callbacks of some gateways, in the order that they were named. */
export const callbacksOf = async (
  pool: pg.Pool,
  gatewayIds: readonly string[],
): Promise<readonly CallbacksSeen[]> => {
  const { rows } = await pool.query<{ gateway_id: string; last_at: string | null; waiting: number }>(
    `select gateway_id, (select max(received_at) from work.gateway_inbox i where i.gateway_id = g.gateway_id) as last_at,
       (select count(*) from work.gateway_inbox i where i.gateway_id = g.gateway_id and status = 'pending') as waiting
     from unnest($1::text[]) with ordinality g (gateway_id, at) order by at`,
    [gatewayIds],
  )
  return rows.map(({ gateway_id: gatewayId, last_at: lastAt, waiting }) => ({ gatewayId, lastAt, waiting }))
}
