import { parseMeta, productOfOrder, type RateRequest } from '../../domain/catalog/catalog.ts'
import { quantityOf } from '../../domain/catalog/pricing.ts'
import { isDedicated, type Product } from '../../domain/catalog/product.ts'
import type { Order } from '../../domain/orders/fold.ts'
import { type Interval, intervalDays, type Period } from '../../domain/shared/billing-interval.ts'
import { decideCancellation, decidePaid } from '../../domain/subscriptions/decide.ts'
import {
  orderIdOfPeriod,
  type Subscription,
  type SubscriptionState,
  subscriptionAfter,
  subscriptionIdOf,
  subscriptionRef,
  subscriptionsActor,
} from '../../domain/subscriptions/fold.ts'
import { decided, refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import {
  type AccountId,
  deriveId,
  newId,
  type OrderId,
  type PlanId,
  type SubscriptionId,
} from '../../kernel/ids.ts'
import { orderStream, subscriptionStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, readState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { IdempotentResult } from '../../platform/http/route.ts'
import { requireAccepted } from '../catalog/index.ts'
import {
  type CompanionAppend,
  orRefusal,
  type Payer,
  type PlaceOrder,
  type Prepared,
  type PriceSources,
  prepareOrder,
  refundOrder,
} from '../orders/index.ts'

/** `position` of the subscription's last event. */
export type Started = IdempotentResult & { readonly subscription: Subscription }

export type Subscriptions = {
  /** Whether the account has a subscription under the key. Its first order's stream decides this. */
  known(account: AccountId, idempotencyKey: string): Promise<boolean>
  /**
   * Pays the first period and starts the subscription, or returns the existing one of the key.
   * @throws ApiError: refusals of `prepareFirstPeriod` and `placeOrder`; CommandOverload
   */
  start(request: {
    readonly caller: Payer
    readonly requestId: string
    readonly idempotencyKey: string | null
    readonly fingerprint: string
    readonly input: SubscriptionInput
  }): Promise<Started>
  /** Cancels at the end of the paid period; null for an unknown subscription. An ended one is not changed. */
  cancel(
    request: Cause & { readonly accountId: AccountId; readonly subscriptionId: SubscriptionId },
  ): Promise<{ readonly subscription: Subscription; readonly position: number | null } | null>
  read(subscriptionId: SubscriptionId): Promise<SubscriptionState>
  /**
   * Records an order that paid a period in its subscription, after a crash on a log without atomic items. If the period
   * is no longer due, the order is refunded whole. Doing it twice changes nothing.
   */
  finish(order: Order): Promise<void>
  /** Decides an order together with its subscription: see `CompanionAppend`. */
  companion(subscriptionId: SubscriptionId): CompanionAppend<SubscriptionState>
}

export const createSubscriptions = (dependencies: {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly placeOrder: PlaceOrder
  readonly market: PriceSources
  readonly settleTraffic: (planId: PlanId) => Promise<void>
}): Subscriptions => {
  const { log, runner, placeOrder, market } = dependencies

  const read: Subscriptions['read'] = (subscriptionId) =>
    readState(
      runner,
      { name: 'read-subscription', actor: subscriptionsActor, correlationId: newId('run') },
      subscriptionRef(subscriptionId),
    )

  const companion: Subscriptions['companion'] = (subscriptionId) => ({
    ...subscriptionRef(subscriptionId),
    decide: decidePaid,
  })

  const finish: Subscriptions['finish'] = async (order) => {
    const { orderId, accountId, subscription } = order.details
    // An order that was refunded since still counts for the period, as if it had been recorded at once.
    if (!subscription || order.fulfilledAt === null) return
    const cause = { actor: subscriptionsActor, correlationId: newId('run'), account: accountId }
    const recorded = await handle(
      runner,
      { ...cause, name: 'record-period' },
      subscriptionRef(subscription.subscriptionId as SubscriptionId),
      (state) => {
        const events = decidePaid(state, order)
        return events === null ? refused('period_not_due') : decided(...events)
      },
    )
    if (recorded.outcome === 'done') return
    const refundId = deriveId('ref', [orderId, 'subscription'])
    await refundOrder(dependencies, { orderId, refundId, request: { kind: 'whole' }, ...cause })
  }

  return {
    known: async (account, idempotencyKey) => {
      const subscriptionId = subscriptionIdOf(account, idempotencyKey)
      const order = orderStream(orderIdOfPeriod(subscriptionId, null))
      return (await log.lastOf(order)) !== null
    },

    start: async ({ caller, requestId, idempotencyKey: clientKey, fingerprint, input }) => {
      const idempotencyKey = clientKey ?? newId('auto')
      const subscriptionId = subscriptionIdOf(caller.accountId, idempotencyKey)
      const orderId: OrderId = orderIdOfPeriod(subscriptionId, null)
      const order = await orRefusal(prepareFirstPeriod(market, caller, input, { subscriptionId, orderId }))
      const placed = await placeOrder({
        caller,
        requestId,
        idempotencyKey: clientKey,
        orderId,
        fingerprint,
        item: { kind: 'quoted', order },
        companion: companion(subscriptionId),
      })
      if (
        placed.order.status === 'failed' ||
        (placed.order.status === 'refunded' && placed.order.failureReason)
      )
        throw refuse(
          'out_of_stock',
          'the first order found nothing left and was refunded; send a new Idempotency-Key to try again',
        )
      // After a crash the order may be complete without its subscription.
      let subscription = await read(subscriptionId)
      if (!subscription) {
        await finish(placed.order)
        subscription = await read(subscriptionId)
      }
      if (!subscription) throw new Error(`${orderId} was paid and ${subscriptionId} did not start`)
      const last = await log.lastOf(subscriptionStream(subscriptionId))
      return {
        subscription,
        replayed: placed.replayed,
        idempotencyKey,
        position: last?.position ?? placed.position,
      }
    },

    cancel: async ({ accountId, subscriptionId, actor, correlationId }) => {
      const result = await handle(
        runner,
        { name: 'cancel-subscription', actor, correlationId, account: accountId },
        subscriptionRef(subscriptionId),
        (state, { nowMs }) => {
          if (state?.terms.accountId !== accountId) return refused('not_found')
          const events = decideCancellation(state, nowMs)
          return { ...decided(...events), subscription: subscriptionAfter(state, events) }
        },
      )
      return result.outcome === 'refused' ? null : result
    },
    read,
    finish,
    companion,
  }
}

export type SubscriptionInput = {
  readonly productId: string
  readonly quantity: number
  readonly interval: Interval
  readonly meta: Readonly<Record<string, unknown>> | undefined
  readonly expectedAmountCents: number | undefined
}

const notAvailable = (message: string) => refuse('subscription_not_available', message)

/** @throws ApiError subscription_not_available */
const checkBilling = ({ id, billing }: Product, interval: Interval): void => {
  if (!billing.subscription)
    throw notAvailable(`${id} is not sold by subscription; order it with POST /api/v1/orders`)
  if (!billing.intervals.includes(interval))
    throw notAvailable(
      `${id} is not sold by the ${interval}; accepted intervals: ${billing.intervals.join(', ')}`,
    )
}

/** An order may have any period of the product; a subscription only that of its interval. */
const otherPeriod = (interval: Interval) =>
  refuse(
    'invalid_period',
    `fulfillment_meta.period_days must be ${intervalDays[interval]} in a subscription by the ${interval}`,
  )

/** @throws ApiError as `parseMeta`; an `invalid_period` refusal names the period of the interval */
const rateRequestOf = (
  product: Product,
  interval: Interval,
  meta: SubscriptionInput['meta'],
): RateRequest | null => {
  const parsed = parseMeta(product, meta)
  if (parsed.ok || parsed.refusal.code !== 'invalid_period') return requireAccepted(parsed)
  const days = intervalDays[interval]
  if (meta?.period_days !== days) throw otherPeriod(interval)
  throw refuse(
    'invalid_period',
    `${product.id} is not sold for ${days} days there, so not by the ${interval}`,
  )
}

/**
 * The period of one payment: a calendar month or year for traffic. For products with a period, that period, which must
 * be the interval's.
 * @throws ApiError subscription_not_available, invalid_period
 */
const periodOf = (product: Product, interval: Interval, periodDays: number | null): Period => {
  const days = intervalDays[interval]
  if (product.shape === 'gateway_gb') return { unit: 'month', count: interval === 'month' ? 1 : 12 }
  if (product.shape === 'gateway_time') {
    if (product.periodDays === days) return { unit: 'day', count: days }
    throw notAvailable(`a plan of ${product.id} lasts ${product.periodDays} days, which is no ${interval}`)
  }
  if (periodDays === days) return { unit: 'day', count: days }
  throw otherPeriod(interval)
}

/**
 * Prepares the order of a subscription's first period.
 * @throws ApiError unknown_product, product_unavailable, subscription_not_available, then as `prepareOrder`
 */
export const prepareFirstPeriod = async (
  { catalog, stock, termsOf, refreshTerms }: PriceSources,
  caller: Payer,
  input: SubscriptionInput,
  ids: { readonly subscriptionId: SubscriptionId; readonly orderId: OrderId },
): Promise<Prepared> => {
  const { productId, quantity, interval, meta, expectedAmountCents } = input
  const product = requireAccepted(productOfOrder(catalog.current(), productId))
  checkBilling(product, interval)
  requireAccepted(quantityOf(product, quantity))
  const rateRequest = rateRequestOf(product, interval, meta)
  const period = periodOf(product, interval, isDedicated(product) ? (rateRequest?.periodDays ?? null) : null)
  await refreshTerms(caller)
  const prepared = await prepareOrder(
    {
      orderId: ids.orderId,
      caller,
      customerId: null,
      termsOf: (orderedProduct) => termsOf(caller, orderedProduct),
      method: 'wallet',
      payableBy: ['wallet'],
      expectedAmountCents,
      catalog: catalog.current(),
    },
    { productId, quantity, meta },
    stock,
  )
  const { subscriptionId } = ids
  return { ...prepared, subscription: { subscriptionId, interval, period, periodStart: null } }
}
