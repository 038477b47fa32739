import type { DomainEvent } from '../../platform/eventstore/event.ts'

/** `plan-{id}`: the arbiter of gateway orders. 1 GB = 1,000,000,000 bytes. Times are ISO 8601 UTC. */
export type PlanActivated = DomainEvent<
  'PlanActivated',
  {
    readonly planId: string
    readonly orderId: string
    readonly accountId: string
    readonly customerId: string | null
    readonly productId: string
    readonly shape: 'gateway_gb' | 'gateway_time'
    readonly renewal: 'topup' | 'repurchase'
    /** Bytes bought; null for a plan sold by time. */
    readonly bytes: number | null
    /** Speed units bought; null for a plan sold by traffic. */
    readonly speedUnits: number | null
    readonly startedAt: string
    readonly expiresAt: string | null
  }
>
export type PlanToppedUp = DomainEvent<'PlanToppedUp', { readonly orderId: string; readonly bytes: number }>
/** The first answer for an order stands: an order refused here is never fulfilled later. */
export type PlanOrderRefused = DomainEvent<
  'PlanOrderRefused',
  { readonly orderId: string; readonly reason: 'plan_expired' }
>
/** A refund took back what is unused of an order's units. */
export type PlanUnitsWithdrawn = DomainEvent<
  'PlanUnitsWithdrawn',
  { readonly orderId: string; readonly refundId: string; readonly bytes: number }
>
/**
 * What was counted since the last one: at most every five minutes, and at once when the plan becomes low, exhausted or
 * expired. Release 0.1.0 wrote one a report, with the id of the report.
 */
export type TrafficMetered = DomainEvent<
  'TrafficMetered',
  {
    readonly reportId?: string
    readonly bytes: number
    /** The sum of all reports. */
    readonly usedBytes: number
  }
>
/**
 * 10 % or less of a plan is left: appended with whatever made it so, each time that it falls to that. (The webhook is
 * nevertheless sent once for ever: there is one delivery for each endpoint and plan.)
 */
export type PlanRanLow = DomainEvent<
  'PlanRanLow',
  {
    readonly planId: string
    readonly accountId: string
    readonly customerId: string | null
    readonly productId: string
    readonly totalBytes: number
    readonly usedBytes: number
    readonly expiresAt: string | null
  }
>
export type PlanExhausted = DomainEvent<'PlanExhausted', { readonly usedBytes: number }>
export type PlanExpired = DomainEvent<'PlanExpired', { readonly expiredAt: string }>
export type PlanCredentialRotated = DomainEvent<'PlanCredentialRotated', { readonly generation: number }>

export type PlanEvent =
  | PlanActivated
  | PlanToppedUp
  | PlanOrderRefused
  | PlanUnitsWithdrawn
  | TrafficMetered
  | PlanRanLow
  | PlanExhausted
  | PlanExpired
  | PlanCredentialRotated
