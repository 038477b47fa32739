import { type AccountId, deriveId, type OrderId, type SubscriptionId } from '../../kernel/ids.ts'
import type { Actor } from '../../platform/eventstore/event.ts'
import { subscriptionStream } from '../../terms/streams.ts'
import { subscriptionFold } from './fold.ts'

/** Who does what a subscription does by itself. */
export const subscriptionsActor = { kind: 'system', name: 'subscriptions' } as const satisfies Actor

/** The stream of one subscription, as a command names it. */
export const subscriptionRef = (subscription: SubscriptionId) => ({
  stream: subscriptionStream(subscription),
  fold: subscriptionFold,
})

/** One subscription a key for ever; apart from the keys of orders and deposits. */
export const subscriptionIdOf = (account: AccountId, idempotencyKey: string): SubscriptionId =>
  deriveId('sub', [account, 'subscription', idempotencyKey])

/**
 * The order of a subscription's period: `first`, or the instant at which the period starts, ISO 8601. The orders of a
 * period that failed are counted by `failedBefore`: each was refunded, and the next one has an id of its own.
 */
export const orderIdOfPeriod = (
  subscription: SubscriptionId,
  periodStart: string | null,
  failedBefore = 0,
): OrderId =>
  deriveId('ord', [
    subscription,
    periodStart ?? 'first',
    ...(failedBefore === 0 ? [] : [String(failedBefore)]),
  ])

/** How many orders a period has at most, the failed ones among them. */
export const maxOrdersOfPeriod = 4
