import { applyDecided, type Fold } from '../../kernel/decider.ts'
import type { Actor } from '../../kernel/event.ts'
import { type AccountId, deriveId, type OrderId, type SubscriptionId } from '../../kernel/ids.ts'
import { subscriptionStream } from '../../kernel/streams.ts'
import type { SubscriptionEvent, SubscriptionStarted } from './events.ts'

/** One subscription as its stream tells it; null before it starts. Instants are ISO 8601 UTC. */
export type Subscription = {
  readonly terms: SubscriptionStarted['data']
  /** Paid so far. */
  readonly periods: number
  readonly currentPeriodStart: string
  readonly currentPeriodEnd: string
  /** Of the period that was paid last. */
  readonly orderId: string
  readonly planId: string | null
  readonly proxyIds: readonly string[]
  readonly amountCents: number
  readonly cancelScheduled: boolean
  readonly ended: {
    readonly status: 'canceled' | 'expired'
    readonly reason: string
    readonly at: string
  } | null
}
export type SubscriptionState = Subscription | null

/** The subscription after facts that were just decided. */
export const subscriptionAfter = (state: Subscription, events: readonly SubscriptionEvent[]): Subscription =>
  // `evolve` looks at the facts only, never at their time.
  applyDecided(subscriptionFold, state as SubscriptionState, events, 0) ?? state

/** The state of `subscription-{id}`: a few events a year, so it is never snapshotted. */
export const subscriptionFold: Fold<SubscriptionState, SubscriptionEvent> = {
  name: 'subscription',
  version: 1,
  initial: null,
  evolve: (state, event) => {
    if (event.type === 'SubscriptionStarted') {
      const { data } = event
      return {
        terms: data,
        periods: 1,
        currentPeriodStart: data.startedAt,
        currentPeriodEnd: data.currentPeriodEnd,
        orderId: data.orderId,
        planId: data.planId,
        proxyIds: data.proxyIds,
        amountCents: data.amountCents,
        cancelScheduled: false,
        ended: null,
      }
    }
    if (!state) throw new Error(`${event.type} on a subscription that was never started`)
    switch (event.type) {
      case 'SubscriptionRenewed': {
        const { periodStart, currentPeriodEnd, orderId, planId, proxyIds, amountCents } = event.data
        return {
          ...state,
          periods: state.periods + 1,
          currentPeriodStart: periodStart,
          currentPeriodEnd,
          orderId,
          planId,
          proxyIds,
          amountCents,
        }
      }
      case 'SubscriptionCancelScheduled':
        return { ...state, cancelScheduled: true }
      case 'SubscriptionCanceled':
        return {
          ...state,
          ended: { status: 'canceled', reason: event.data.reason, at: event.data.canceledAt },
        }
      case 'SubscriptionExpired':
        return { ...state, ended: { status: 'expired', reason: event.data.reason, at: event.data.expiredAt } }
      default: {
        const unknown: never = event
        throw new Error(`unknown subscription event ${JSON.stringify(unknown)}`)
      }
    }
  },
}

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
