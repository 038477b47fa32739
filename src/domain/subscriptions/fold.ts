import { applyDecided, type Fold } from '../../kernel/decider.ts'
import type { Actor } from '../../kernel/event.ts'
import { type AccountId, deriveId, type OrderId, type SubscriptionId } from '../../kernel/ids.ts'
import { subscriptionStream } from '../../kernel/streams.ts'
import type { SubscriptionEvent, SubscriptionStarted } from './events.ts'

/** One subscription according to its stream; null before it starts. Times are ISO 8601 UTC. */
export type Subscription = {
  readonly terms: SubscriptionStarted['data']
  /** The number of paid periods. */
  readonly periods: number
  readonly currentPeriodStart: string
  readonly currentPeriodEnd: string
  /** This and the next three fields are of the last paid period. */
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

/** The subscription after events that were just decided. */
export const subscriptionAfter = (state: Subscription, events: readonly SubscriptionEvent[]): Subscription =>
  // `evolve` does not use the time of the events.
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

/** The actor of everything that a subscription does without a request. */
export const subscriptionsActor = { kind: 'system', name: 'subscriptions' } as const satisfies Actor

/** The stream reference of a subscription for a command. */
export const subscriptionRef = (subscription: SubscriptionId) => ({
  stream: subscriptionStream(subscription),
  fold: subscriptionFold,
})

/** One subscription per key. The keys of orders and deposits are separate. */
export const subscriptionIdOf = (account: AccountId, idempotencyKey: string): SubscriptionId =>
  deriveId('sub', [account, 'subscription', idempotencyKey])

/**
 * The order id of a subscription's period. `periodStart` is the start of the period, ISO 8601, or null for the first
 * period. `failedBefore` is the number of failed orders of the period: each was refunded, and the next order needs
 * another id.
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

/** The most orders of one period, including failed ones. */
export const maxOrdersOfPeriod = 4
