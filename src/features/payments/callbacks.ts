import type pg from 'pg'
import { z } from 'zod'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { createRateLimiter, createRouteLimit } from '../../platform/http/rate-limiter.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { Callback, Gateways } from './payment-port.ts'

/** A stored callback. */
export type InboxEntry = {
  readonly gateway_id: string
  readonly event_id: string
  readonly reference: string
  readonly attempts: number
}

/** The queue's owners are gateways, so that a hanging gateway does not delay the others. */
export const inboxQueue: QueueTable = {
  name: 'payment-callbacks',
  table: 'work.gateway_inbox',
  key: ['gateway_id', 'event_id'],
  owner: 'gateway_id',
  longestWaitMs: 300_000,
  columns: ['reference'],
}

/**
 * The durable inbox of callbacks. Deliveries arrive at least once; each event is stored once. Read by
 * `take-callbacks.ts`.
 */
export type Inbox = {
  /** Resolves when the callback is durable. False: this event was stored before. */
  store(gatewayId: string, callback: Callback & { readonly reference: string }): Promise<boolean>
  /** Calls the listener after each stored callback. */
  onStored(listener: () => void): void
  /** Deletes callbacks that were finished more than 30 days ago. No provider repeats an event after that time. */
  sweep(): Promise<void>
}

const retentionDays = 30
/** Rows of one statement, so that it never blocks others for long. */
const sweepBatchSize = 1_000

export const createInbox = (pool: pg.Pool, clock: Clock): Inbox => {
  const listeners: (() => void)[] = []
  return {
    onStored: (listener) => {
      listeners.push(listener)
    },
    store: async (gatewayId, { eventId, reference }) => {
      const { rowCount } = await pool.query({
        name: 'store-callback',
        text: `insert into work.gateway_inbox (gateway_id, event_id, reference, due_at)
             values ($1::text, $2::text, $3::text, $4::timestamptz) on conflict do nothing`,
        values: [gatewayId, eventId, reference, isoTime(clock())],
      })
      if (rowCount !== 1) return false
      for (const listener of listeners) listener()
      return true
    },
    sweep: async () => {
      for (;;) {
        const { rowCount } = await pool.query({
          name: 'sweep-callbacks',
          text: `delete from work.gateway_inbox where ctid in (
                 select ctid from work.gateway_inbox
                  where finished_at < $1::timestamptz - make_interval(days => ${retentionDays}) limit ${sweepBatchSize})`,
          values: [isoTime(clock())],
        })
        if ((rowCount ?? 0) < sweepBatchSize) return
      }
    },
  }
}

/** The callbacks of a gateway within the retention time; `lastAt` is ISO 8601 UTC, null: none. */
export type CallbacksSeen = {
  readonly gatewayId: string
  readonly lastAt: string | null
  readonly waiting: number
}

/** The callbacks of some gateways, in the given order. */
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

/** The path of a gateway's callbacks. */
export const callbackPath = (gatewayId: string): string => `/callbacks/${gatewayId}`

/**
 * The endpoint is public and must not slow down customers. Callbacks have concurrency slots and rate limits of their
 * own, above what a provider sends from one address. A rejected callback is repeated by its provider, and found by
 * polling.
 */
const callbacksAtOnce = { total: 256, perAddress: 64 }
const callbackRate = { burst: 500, perSecond: 50 }
/**
 * Limit for one reseller's gateway, from all addresses. A client with the gateway's secret can sign any number of
 * callbacks. Each is stored for a month and causes a request to the reseller's server. An invoice has about four.
 */
const resellerRate = { burst: 500, perSecond: 10 }

/**
 * The endpoint for providers' callbacks. It checks the signature over the raw bytes, stores the reference and answers.
 * The event is processed later. An event that was stored before gets the same answer.
 */
export const callbackRoutes = (dependencies: {
  readonly gateways: Gateways
  readonly inbox: Inbox
  readonly clock: Clock
  readonly hooks: CrashHooks
  readonly monotonicMs: MonotonicClock
}): readonly Route[] => {
  const byReseller = createRateLimiter(resellerRate, dependencies.monotonicMs)
  return [
    route({
      method: 'POST',
      path: '/callbacks/{gateway}',
      operationId: 'takeCallback',
      summary: 'Receive a payment callback',
      description: 'For payment providers. The callback must be signed with the secret of the gateway.',
      tag: 'Service',
      access: 'public',
      writes: false,
      hidden: true,
      atOnce: callbacksAtOnce,
      limit: createRouteLimit('address', callbackRate, dependencies.monotonicMs),
      rawBody: true,
      params: z.object({ gateway: z.string().max(64) }),
      responses: {
        200: { description: 'The callback is stored.', text: { mediaType: 'text/plain', example: 'ok' } },
      },
      errors: ['unauthorized', 'not_found'],
      handler: async ({ params, raw, headers, log, address }) => {
        const liveGateway = await dependencies.gateways.byId(params.gateway)
        if (!liveGateway) throw refuse('not_found', 'no gateway has this address')
        const verdict = liveGateway.gateway.verify(raw, headers, dependencies.clock())
        if (!verdict.ok) {
          const { gatewayId, provider } = liveGateway
          log().warn({ gatewayId, provider, why: verdict.why, address }, 'a callback was refused')
          throw refuse('unauthorized', 'the signature does not fit the body, or is too old')
        }
        // Checked after the signature, so that unsigned requests cannot use up a reseller's limit.
        const waitS = liveGateway.owner === null ? 0 : byReseller.take(liveGateway.gatewayId)
        if (waitS > 0) throw refuseWithRetryAfter('rate_limited', 'too many callbacks of this gateway', waitS)
        const { eventId, reference } = verdict.callback
        if (reference !== null) await dependencies.inbox.store(liveGateway.gatewayId, { eventId, reference })
        dependencies.hooks.at('callback-stored')
        return { status: 200, text: 'ok' }
      },
    }),
  ]
}
