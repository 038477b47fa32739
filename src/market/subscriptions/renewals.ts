import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { type AccountId, newId, type OrderId, type SubscriptionId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { type Handling, handle } from '../../platform/eventstore/commands/handle.ts'
import { decided } from '../../platform/eventstore/decision.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { ApiError } from '../../platform/http/errors.ts'
import { graceMs } from '../../terms/interval.ts'
import { centsToMicros } from '../../terms/money.ts'
import { type Order, orderRef } from '../orders/fold.ts'
import { type OrderService, OrderTurnedAway } from '../orders/service.ts'
import { decideRefused, decideScheduledEnd, dueAtMs } from './decide.ts'
import type { Subscription } from './fold.ts'
import { subscriptionRef, subscriptionsActor } from './names.ts'
import type { Market } from './prepare.ts'
import { createRenewalOrders, type RenewalOrders } from './renewal-order.ts'
import type { Subscriptions } from './service.ts'

/** Why a period could not be paid: an error code of the API, and how much the wallet needs when it was short. */
type Refused = { readonly reason: string; readonly neededMicros: number | null }

/** How long after a refusal a renewal is tried again; at once when the wallet holds enough. */
export const retryMs = 15 * 60 * 1000

/** Periods paid in one go, after a long outage; the next look goes on with what is left. */
const maxPeriodsAtOnce = 100

const refusedBy = ({ code, extra }: ApiError): Refused => ({
  reason: code,
  neededMicros:
    code === 'insufficient_balance' && typeof extra?.amountCents === 'number'
      ? centsToMicros(extra.amountCents)
      : null,
})

const failed = (order: Order): Refused => ({
  reason: order.failureReason === 'plan_expired' ? 'product_unavailable' : 'out_of_stock',
  neededMicros: null,
})

const commandOn = ({ terms }: Subscription, name: string): Handling => ({
  name,
  actor: subscriptionsActor,
  correlationId: newId('run'),
  account: terms.accountId as AccountId,
})

/**
 * Pays the next period of a subscription that is due, or ends the subscription. The period's order has an id of its own
 * and lands with what the subscription says of it, so however many processes do this at once, one order is paid.
 */
export const createRenewals = (deps: {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly orders: OrderService
  readonly market: Market
  readonly subscriptions: Subscriptions
  readonly clock: Clock
  readonly logger: Pick<Logger, 'info'>
}) => {
  const { pool, runner, orders, subscriptions, clock, logger } = deps
  const { payerOf, running, prepare, orderOfNextPeriod } = createRenewalOrders(deps)

  /** Null: the period is paid, its order is on its way, or somebody else has decided on it. */
  const pay = async (
    state: Subscription,
    { orderId, standing }: Awaited<ReturnType<RenewalOrders['orderOfNextPeriod']>>,
  ): Promise<Refused | null> => {
    if (standing) {
      if (standing.failureReason !== null) return failed(standing)
      await subscriptions.finish(standing)
      return null
    }
    const payer = await payerOf(state)
    if (!payer) return { reason: 'account_blocked', neededMicros: null }
    const kept = await running(state)
    // Before the end only what runs can be kept; what has ended by then is bought anew.
    if (kept.length === 0 && clock() < Date.parse(state.currentPeriodEnd))
      return { reason: 'out_of_stock', neededMicros: null }
    try {
      const { order, position } = await orders.submit({
        caller: payer,
        requestId: newId('run'),
        idempotencyKey: null,
        orderId,
        actor: subscriptionsActor,
        fingerprint: `renewal ${orderId}`,
        prepare: () => prepare(state, payer, orderId, kept),
        beside: subscriptions.beside(state.terms.subscriptionId as SubscriptionId),
      })
      if (order.failureReason !== null) return failed(order)
      if (position === null) await subscriptions.finish(order)
      return null
    } catch (error) {
      if (error instanceof OrderTurnedAway) return null
      if (error instanceof ApiError) return refusedBy(error)
      throw error
    }
  }

  /** Ends the subscription once the grace is over; true when it is. */
  const expire = async (state: Subscription, orderId: OrderId, reason: string): Promise<boolean> => {
    const decider = {
      ...subscriptionRef(state.terms.subscriptionId as SubscriptionId),
      others: { order: orderRef(orderId) },
    }
    const result = await handle(runner, commandOn(state, 'expire-subscription'), decider, (now, context) => {
      const { order } = context.others
      const refusal = {
        periodStart: state.currentPeriodEnd,
        reason,
        // One that failed was refunded.
        orderStands: order !== null && order.failureReason === null,
      }
      return decided(...(now ? decideRefused(now, refusal, context.nowMs) : []))
    })
    return result.changed
  }

  const note = async (state: Subscription, refused: Refused, triedAtMs: number): Promise<void> => {
    const end = Date.parse(state.currentPeriodEnd)
    // The end of the period and the end of the grace are looked at on time, also when they passed while it was tried.
    const stops = [end, end + graceMs].filter((stop) => stop > triedAtMs)
    await pool.query(
      `insert into work.renewals (subscription_id, period_start, reason, needed_micros, retry_at)
       values ($1::text, $2::timestamptz, $3::text, $4::bigint, $5::timestamptz)
       on conflict (subscription_id) do update
         set period_start = excluded.period_start, reason = excluded.reason,
             needed_micros = excluded.needed_micros, retry_at = excluded.retry_at`,
      [
        state.terms.subscriptionId,
        state.currentPeriodEnd,
        refused.reason,
        refused.neededMicros,
        isoTime(Math.min(triedAtMs + retryMs, ...stops)),
      ],
    )
  }

  const end = async (state: Subscription): Promise<void> => {
    const ref = subscriptionRef(state.terms.subscriptionId as SubscriptionId)
    await handle(runner, commandOn(state, 'end-subscription'), ref, (now, { nowMs }) =>
      decided(...(now ? decideScheduledEnd(now, nowMs) : [])),
    )
  }

  /** One period; true when it is paid, so that the next one may be due too. */
  const renewOnce = async (subscriptionId: SubscriptionId): Promise<boolean> => {
    const state = await subscriptions.read(subscriptionId)
    const triedAtMs = clock()
    if (!state || state.ended || triedAtMs < dueAtMs(state)) return false
    if (state.cancelScheduled) {
      await end(state)
      return false
    }
    const order = await orderOfNextPeriod(state)
    const { orderId } = order
    const refused = await pay(state, order)
    const fields = { subscriptionId, accountId: state.terms.accountId, orderId }
    if (refused === null) {
      const after = await subscriptions.read(subscriptionId)
      const paid = after?.orderId === orderId
      if (paid) logger.info(fields, 'a subscription was renewed')
      return paid
    }
    const expired = await expire(state, orderId, refused.reason)
    logger.info(
      { ...fields, reason: refused.reason, expired },
      expired ? 'a subscription expired' : 'a renewal was refused and is tried again',
    )
    if (!expired) await note(state, refused, triedAtMs)
    return false
  }

  return {
    /**
     * Does what is due for one subscription now: every period that has begun, when the service was away for long. Doing
     * it again, or elsewhere at once, changes nothing.
     */
    renew: async (subscriptionId: SubscriptionId): Promise<void> => {
      for (let n = 0; n < maxPeriodsAtOnce; n += 1) if (!(await renewOnce(subscriptionId))) return
    },
  }
}

export type Renewals = ReturnType<typeof createRenewals>
