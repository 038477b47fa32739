import { isoTime } from '../../kernel/clock.ts'
import { endOfPeriod, graceMs, rentalLeadMs } from '../shared/billing-interval.ts'
import type { OrderDetails } from '../shared/order-terms.ts'
import type { SubscriptionEvent } from './events.ts'
import type { Subscription, SubscriptionState } from './fold.ts'

/** The part of a paid and fulfilled order that a subscription uses. */
export type PaidOrder = {
  readonly details: OrderDetails
  readonly planId: string | null
  readonly proxyIds: readonly string[]
  readonly fulfilledAt: string | null
}

const startedEvent = (order: PaidOrder): SubscriptionEvent => {
  const { details, planId, proxyIds, fulfilledAt } = order
  const { subscription, accountId, keyId, productId, quantity, target } = details
  if (!subscription) throw new Error(`${details.orderId} pays no subscription`)
  // The first period starts at the fulfilment.
  const startedAt = fulfilledAt ?? details.createdAt
  const { subscriptionId, interval, period } = subscription
  return {
    type: 'SubscriptionStarted',
    data: {
      subscriptionId,
      accountId,
      keyId,
      productId,
      quantity,
      target,
      interval,
      period,
      orderId: details.orderId,
      planId,
      proxyIds,
      amountCents: details.amountCents,
      fingerprint: details.fingerprint,
      startedAt,
      currentPeriodEnd: isoTime(endOfPeriod(Date.parse(startedAt), period, 1)),
    },
  }
}

const renewedEvent = (state: Subscription, order: PaidOrder): SubscriptionEvent => {
  const { details, planId, proxyIds } = order
  const { subscriptionId, accountId, startedAt, period } = state.terms
  const end = endOfPeriod(Date.parse(startedAt), period, state.periods + 1)
  return {
    type: 'SubscriptionRenewed',
    data: {
      subscriptionId,
      accountId,
      orderId: details.orderId,
      planId,
      proxyIds,
      amountCents: details.amountCents,
      periodStart: state.currentPeriodEnd,
      currentPeriodEnd: isoTime(end),
    },
  }
}

/**
 * The events of a subscription for a paid order: it starts, or the next period is paid. Empty if the subscription
 * already has this order, or if the period of a renewal was paid before. Null if the period must not be paid: another
 * order started the subscription, the period is not the next one, a cancellation is scheduled, or the subscription has
 * ended. Then the order must not be placed, and an existing order is refunded.
 * @throws if the order pays no subscription
 */
export const decidePaid = (
  state: SubscriptionState,
  order: PaidOrder,
): readonly SubscriptionEvent[] | null => {
  const { subscription } = order.details
  if (!subscription) throw new Error(`${order.details.orderId} pays no subscription`)
  const { periodStart } = subscription
  if (!state) return periodStart === null ? [startedEvent(order)] : null
  if (state.orderId === order.details.orderId) return []
  if (periodStart === null) return state.terms.orderId === order.details.orderId ? [] : null
  if (periodStart < state.currentPeriodEnd) return []
  if (periodStart !== state.currentPeriodEnd || state.ended || state.cancelScheduled) return null
  return [renewedEvent(state, order)]
}

/** When the next period must be paid, or the scheduled end comes, milliseconds since the epoch. */
export const dueAtMs = ({ terms, currentPeriodEnd, cancelScheduled }: Subscription): number =>
  Date.parse(currentPeriodEnd) - (terms.target !== null && !cancelScheduled ? rentalLeadMs : 0)

const endedData = (state: Subscription) => {
  const { subscriptionId, accountId, productId } = state.terms
  return {
    subscriptionId,
    accountId,
    productId,
    planId: state.planId,
    currentPeriodEnd: state.currentPeriodEnd,
  }
}

const canceledEvent = (state: Subscription, nowMs: number): SubscriptionEvent => ({
  type: 'SubscriptionCanceled',
  data: { ...endedData(state), status: 'canceled', reason: 'requested', canceledAt: isoTime(nowMs) },
})

/**
 * Cancels at the end of the paid period, or at once if that is over. A subscription that has ended or is to end does
 * not change.
 */
export const decideCancellation = (state: Subscription, nowMs: number): readonly SubscriptionEvent[] => {
  if (state.ended || state.cancelScheduled) return []
  if (nowMs >= Date.parse(state.currentPeriodEnd)) return [canceledEvent(state, nowMs)]
  const { subscriptionId, accountId } = state.terms
  return [
    {
      type: 'SubscriptionCancelScheduled',
      data: { subscriptionId, accountId, endsAt: state.currentPeriodEnd },
    },
  ]
}

/** Cancels at the scheduled end. */
export const decideScheduledEnd = (state: Subscription, nowMs: number): readonly SubscriptionEvent[] =>
  !state.ended && state.cancelScheduled && nowMs >= Date.parse(state.currentPeriodEnd)
    ? [canceledEvent(state, nowMs)]
    : []

/**
 * A renewal was refused: after the grace period of three days the subscription expires, with the code of the refusal.
 * It does not expire if another period was paid meanwhile, or if the order of this period exists after all.
 */
export const decideRefused = (
  state: Subscription,
  refusedPeriod: { readonly periodStart: string; readonly reason: string; readonly orderExists: boolean },
  nowMs: number,
): readonly SubscriptionEvent[] => {
  const { periodStart, reason, orderExists } = refusedPeriod
  if (state.ended || state.cancelScheduled || orderExists || state.currentPeriodEnd !== periodStart) return []
  if (nowMs < Date.parse(periodStart) + graceMs) return []
  return [
    {
      type: 'SubscriptionExpired',
      data: { ...endedData(state), status: 'expired', reason, expiredAt: isoTime(nowMs) },
    },
  ]
}
