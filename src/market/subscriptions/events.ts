import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { Interval, Period } from '../../terms/interval.ts'
import type { Target } from '../../terms/order-details.ts'

/** `subscription-{id}`: orders that repeat themselves, each paid from the wallet. Times are ISO 8601 UTC. */
export type SubscriptionStarted = DomainEvent<
  'SubscriptionStarted',
  {
    readonly subscriptionId: string
    readonly accountId: string
    /** The key that asked for it; its cap holds for the renewals. */
    readonly keyId: string | null
    readonly productId: string
    readonly quantity: number
    readonly target: Target | null
    readonly interval: Interval
    readonly period: Period
    /** The order of the first period. */
    readonly orderId: string
    readonly planId: string | null
    readonly proxyIds: readonly string[]
    readonly amountCents: number
    /** What a retry under the same `Idempotency-Key` must ask for again. */
    readonly fingerprint: string
    /** Every period counts from here. */
    readonly startedAt: string
    readonly currentPeriodEnd: string
  }
>
/** Another period was paid, by an order whose id the subscription and `periodStart` give. */
export type SubscriptionRenewed = DomainEvent<
  'SubscriptionRenewed',
  {
    readonly subscriptionId: string
    readonly accountId: string
    readonly orderId: string
    readonly planId: string | null
    readonly proxyIds: readonly string[]
    readonly amountCents: number
    readonly periodStart: string
    readonly currentPeriodEnd: string
  }
>
/** Asked for; it happens at the end of the period that is paid. */
export type SubscriptionCancelScheduled = DomainEvent<
  'SubscriptionCancelScheduled',
  { readonly subscriptionId: string; readonly accountId: string; readonly endsAt: string }
>

type Ended = {
  readonly subscriptionId: string
  readonly accountId: string
  readonly productId: string
  /** The plan of the last period. */
  readonly planId: string | null
  /** The end of the last period that was paid. */
  readonly currentPeriodEnd: string
}
/** The period that was paid is over, or a period that was not paid was given up. */
export type SubscriptionCanceled = DomainEvent<
  'SubscriptionCanceled',
  Ended & { readonly status: 'canceled'; readonly reason: 'requested'; readonly canceledAt: string }
>
/** It could not be renewed within the grace; `reason` is the code of the last refusal, mostly `insufficient_balance`. */
export type SubscriptionExpired = DomainEvent<
  'SubscriptionExpired',
  Ended & { readonly status: 'expired'; readonly reason: string; readonly expiredAt: string }
>

export type SubscriptionEvent =
  | SubscriptionStarted
  | SubscriptionRenewed
  | SubscriptionCancelScheduled
  | SubscriptionCanceled
  | SubscriptionExpired
