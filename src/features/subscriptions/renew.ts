import type pg from 'pg'
import type { Logger } from 'pino'
import { accountRef, capOf } from '../../domain/accounts/fold.ts'
import { metaOf } from '../../domain/catalog/catalog.ts'
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
import { type CommandContext, handle, readState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
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

/** Prepares the order of a subscription's next period: its id, its payer, the extended addresses and its price. */
export const createRenewalOrders = (dependencies: {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly market: PriceSources
}) => {
  const { log, runner, market } = dependencies

  /** The payer, from the current account; null while the account may not buy. */
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
    // The subscription was started by a person in the console, so no cap applies.
    if (keyId === null) return { accountId, reseller, keyId, actor: subscriptionsActor }
    // The cap of the key that started the subscription applies to its renewals, even if the key is revoked.
    const key = account.keys.get(keyId)
    const capKeyId = key?.capKeyId ?? keyId
    return { accountId, reseller, keyId, capKeyId, cap: key ? capOf(key) : null }
  }

  /**
   * The subscription's addresses that still run; these are extended. Read from the stock stream, which also decides the
   * extension: the read tables may lack a recent change by the previous period, another process or the customer.
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
   * The order of the next period at the current price. Running addresses are extended; without any, the same item is
   * bought again.
   * @throws ApiError the refusal
   */
  const prepare = async (
    state: Subscription,
    payer: Payer,
    orderId: OrderId,
    runningIds: readonly ProxyId[],
  ): Promise<Prepared> => {
    const { productId, quantity, target, interval, period, subscriptionId } = state.terms
    const catalog = market.catalog.current()
    const product = catalog.resolve(productId)
    await market.refreshTerms(payer)
    const buyer: Buyer = {
      orderId,
      caller: payer,
      customerId: null,
      termsOf: (orderedProduct) => market.termsOf(payer, orderedProduct),
      method: 'wallet',
      payableBy: ['wallet'],
      expectedAmountCents: undefined,
      catalog,
    }
    // The period of the product has changed since the subscription was started.
    if (product?.shape === 'gateway_time' && product.periodDays !== period.count)
      throw refuse('subscription_not_available', `a plan of ${productId} lasts ${product.periodDays} days`)
    const meta = target === null ? undefined : metaOf(target)
    const prepared =
      product && target !== null && runningIds.length > 0
        ? prepareExtension(buyer, { productId, proxyIds: runningIds, line: target }, target.periodDays)
        : await prepareOrder(buyer, { productId, quantity, meta }, market.stock)
    const periodStart = state.currentPeriodEnd
    return { ...prepared, subscription: { subscriptionId, interval, period, periodStart } }
  }

  /**
   * The id and the state of the next period's order: the first one that did not fail, or the last one that a period may
   * have. Orders fail only on a log without atomic items: the debit was appended, and the item was no longer available.
   */
  const orderOfNextPeriod = async ({ terms, currentPeriodEnd }: Subscription) => {
    for (let failedBefore = 0; ; failedBefore += 1) {
      const subscriptionId = terms.subscriptionId as SubscriptionId
      const orderId = orderIdOfPeriod(subscriptionId, currentPeriodEnd, failedBefore)
      const existing = await readOrder(log, orderId)
      if (!existing || existing.failureReason === null || failedBefore + 1 === maxOrdersOfPeriod)
        return { orderId, existing }
    }
  }

  return { payerOf, running, prepare, orderOfNextPeriod }
}

export type RenewalOrders = ReturnType<typeof createRenewalOrders>

/** Why a period was not paid: an error code of the API, and the needed amount if the wallet was short. */
type Refused = { readonly reason: string; readonly neededMicros: number | null }

/** The time between a refusal and the next try, milliseconds. A wallet with the needed amount is tried at once. */
export const retryMs = 15 * 60 * 1000

/** The largest number of periods that one run pays after a long outage. The next run pays the rest. */
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
 * Pays the next period of a due subscription, or ends the subscription. The order's id is derived from the period, and
 * the order is appended together with the subscription's event. One order is therefore paid, however many processes try
 * it.
 */
export const createRenewals = (dependencies: {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly placeOrder: PlaceOrder
  readonly market: PriceSources
  readonly subscriptions: Subscriptions
  readonly clock: Clock
  readonly logger: Pick<Logger, 'info'>
}) => {
  const { pool, runner, placeOrder, subscriptions, clock, logger } = dependencies
  const { payerOf, running, prepare, orderOfNextPeriod } = createRenewalOrders(dependencies)

  /** Null: the period is paid, its order is under way, or another process has decided it. */
  const pay = async (
    state: Subscription,
    { orderId, existing }: Awaited<ReturnType<RenewalOrders['orderOfNextPeriod']>>,
  ): Promise<Refused | null> => {
    if (existing) {
      if (existing.failureReason !== null) return failed(existing)
      await subscriptions.finish(existing)
      return null
    }
    const payer = await payerOf(state)
    if (!payer) return { reason: 'account_blocked', neededMicros: null }
    const runningIds = await running(state)
    // Before the period's end an order can only extend running addresses. Ended ones are bought again after it.
    if (runningIds.length === 0 && clock() < Date.parse(state.currentPeriodEnd))
      return { reason: 'out_of_stock', neededMicros: null }
    try {
      const prepared = await orRefusal(prepare(state, payer, orderId, runningIds))
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

  /** Ends the subscription after the grace period. Returns whether it ended. */
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
        // A failed order was refunded, so it does not count.
        orderExists: order !== null && order.failureReason === null,
      }
      return decided(...(now ? decideRefused(now, refusal, context.nowMs) : []))
    })
    return result.changed
  }

  const note = async (state: Subscription, refused: Refused, triedAtMs: number): Promise<void> => {
    const end = Date.parse(state.currentPeriodEnd)
    // Retries at the end of the period and of the grace period, even if these passed during this try.
    const deadlines = [end, end + graceMs].filter((stop) => stop > triedAtMs)
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
        isoTime(Math.min(triedAtMs + retryMs, ...deadlines)),
      ],
    )
  }

  const end = async (state: Subscription): Promise<void> => {
    const ref = subscriptionRef(state.terms.subscriptionId as SubscriptionId)
    await handle(runner, commandOn(state, 'end-subscription'), ref, (now, { nowMs }) =>
      decided(...(now ? decideScheduledEnd(now, nowMs) : [])),
    )
  }

  /** Processes one period. True if it is paid, so that the next one may be due too. */
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
     * Processes everything that is due for a subscription, including every period that began during an outage. A
     * repeated or concurrent call changes nothing.
     */
    renew: async (subscriptionId: SubscriptionId): Promise<void> => {
      for (let n = 0; n < maxPeriodsAtOnce; n += 1) if (!(await renewOnce(subscriptionId))) return
    },
  }
}

export type Renewals = ReturnType<typeof createRenewals>
