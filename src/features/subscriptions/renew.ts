import type pg from 'pg'
import type { Logger } from 'pino'
import { accountRef } from '../../domain/accounts/fold.ts'
import { type Order, orderRef } from '../../domain/orders/fold.ts'
import { graceMs } from '../../domain/shared/billing-interval.ts'
import { stillRunning } from '../../domain/stock/decide.ts'
import { stockFold } from '../../domain/stock/fold.ts'
import { decideRefused, decideScheduledEnd, dueAtMs } from '../../domain/subscriptions/decide.ts'
import {
  maxOrdersOfPeriod,
  orderIdOfPeriod,
  type Subscription,
  subscriptionRef,
  subscriptionsActor,
} from '../../domain/subscriptions/fold.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { decided } from '../../kernel/decider.ts'
import {
  type AccountId,
  type KeyId,
  newId,
  type OrderId,
  type ProxyId,
  type SubscriptionId,
} from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { stockStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { type CommandContext, handle, readState } from '../../platform/commands/handle.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
import { metaOf } from '../catalog/index.ts'
import {
  type Buyer,
  OrderRejected,
  orRefusal,
  type Payer,
  type PlaceOrder,
  type Prepared,
  type PriceSources,
  prepareExtension,
  prepareOrder,
  readOrder,
} from '../orders/index.ts'
import type { Subscriptions } from './subscription-service.ts'

/** The order that pays a subscription's next period: which one it is, who pays it, what it keeps and what it asks for. */
export const createRenewalOrders = (deps: {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly market: PriceSources
}) => {
  const { log, runner, market } = deps

  /** Who pays, as the account stands now; null while it may not buy. */
  const payerOf = async ({ terms }: Subscription): Promise<Payer | null> => {
    const accountId = terms.accountId as AccountId
    const account = await readState(
      runner,
      { name: 'read-account', actor: subscriptionsActor, correlationId: newId('run') },
      accountRef(accountId),
    )
    if (!account || account.blocked) return null
    const { reseller } = account
    const keyId = terms.keyId as KeyId | null
    // A person began it in the console, under no cap.
    if (keyId === null) return { accountId, reseller, keyId, actor: subscriptionsActor }
    // The cap of the key that asked for the subscription holds for what it leads to, also once the key is revoked.
    const key = account.keys.get(keyId)
    const capKeyId = key?.capKeyId ?? keyId
    return { accountId, reseller, keyId, capKeyId, dailyCapCents: key?.dailyCapCents ?? null }
  }

  /**
   * Which of the subscription's addresses still run: these are kept. The arbiter of the extension says so, for the read
   * tables may not know yet what the period before, another process or the customer did a moment ago.
   */
  const running = async ({ terms, proxyIds }: Subscription): Promise<readonly ProxyId[]> => {
    if (terms.target === null) return []
    const { accountId } = terms
    const { answer } = await runner.run({
      name: 'read-rentals',
      streams: { stock: { stream: stockStream(terms.productId, terms.target.country), fold: stockFold } },
      decide: ({ stock }, { nowMs }) => ({
        appends: [],
        answer: stillRunning(stock, { accountId, proxyIds }, nowMs),
      }),
      actor: subscriptionsActor,
      correlationId: newId('run'),
    })
    return answer
  }

  /**
   * The order of the next period at today's price: what still runs is extended, else the same is bought anew.
   * @throws ApiError what refuses it
   */
  const prepare = async (
    state: Subscription,
    payer: Payer,
    orderId: OrderId,
    kept: readonly ProxyId[],
  ): Promise<Prepared> => {
    const { productId, quantity, target, interval, period, subscriptionId } = state.terms
    const catalog = market.catalog.current()
    const product = catalog.resolve(productId)
    await market.refreshTerms(payer)
    const buyer: Buyer = {
      orderId,
      caller: payer,
      customerId: null,
      termsOf: (sold) => market.termsOf(payer, sold),
      method: 'wallet',
      payableBy: ['wallet'],
      expectedAmountCents: undefined,
      catalog,
    }
    // Paid for so many days, and sold for another number by now.
    if (product?.shape === 'gateway_time' && product.periodDays !== period.count)
      throw refuse('subscription_not_available', `a plan of ${productId} lasts ${product.periodDays} days`)
    const meta = target === null ? undefined : metaOf(target)
    const prepared =
      product && target !== null && kept.length > 0
        ? prepareExtension(buyer, { productId, proxyIds: kept, line: target }, target.periodDays)
        : await prepareOrder(buyer, { productId, quantity, meta }, market.stock)
    const periodStart = state.currentPeriodEnd
    return { ...prepared, subscription: { subscriptionId, interval, period, periodStart } }
  }

  /**
   * The order that is to pay the next period, and what stands of it: the first one that did not fail, or the last that a
   * period may have. Only a log without atomic items has orders that fail: their debit landed, and what they were to
   * keep was gone.
   */
  const orderOfNextPeriod = async ({ terms, currentPeriodEnd }: Subscription) => {
    for (let failedBefore = 0; ; failedBefore += 1) {
      const subscriptionId = terms.subscriptionId as SubscriptionId
      const orderId = orderIdOfPeriod(subscriptionId, currentPeriodEnd, failedBefore)
      const standing = await readOrder(log, orderId)
      if (!standing || standing.failureReason === null || failedBefore + 1 === maxOrdersOfPeriod)
        return { orderId, standing }
    }
  }

  return { payerOf, running, prepare, orderOfNextPeriod }
}

export type RenewalOrders = ReturnType<typeof createRenewalOrders>

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

const commandOn = ({ terms }: Subscription, name: string): CommandContext => ({
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
  readonly placeOrder: PlaceOrder
  readonly market: PriceSources
  readonly subscriptions: Subscriptions
  readonly clock: Clock
  readonly logger: Pick<Logger, 'info'>
}) => {
  const { pool, runner, placeOrder, subscriptions, clock, logger } = deps
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
      const prepared = await orRefusal(prepare(state, payer, orderId, kept))
      const { order, position } = await placeOrder({
        caller: payer,
        requestId: newId('run'),
        idempotencyKey: null,
        orderId,
        actor: subscriptionsActor,
        fingerprint: `renewal ${orderId}`,
        item: { kind: 'quoted', order: prepared },
        companion: subscriptions.companion(state.terms.subscriptionId as SubscriptionId),
      })
      if (order.failureReason !== null) return failed(order)
      if (position === null) await subscriptions.finish(order)
      return null
    } catch (error) {
      if (error instanceof OrderRejected) return null
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
        orderExists: order !== null && order.failureReason === null,
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
