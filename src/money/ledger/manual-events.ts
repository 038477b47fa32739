import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { AdjustmentReason, CustomerAdjustmentReason } from './adjustment-reason.ts'

/** What an operator moves by hand. `amountMicros` is above zero for a credit, signed for what adjusts. */
export type ManualMovement =
  | {
      readonly kind: 'credit'
      readonly accountId: string
      readonly reference: string
      readonly amountMicros: number
    }
  | {
      readonly kind: 'adjustment'
      readonly accountId: string
      readonly reference: string
      readonly reason: AdjustmentReason
      /** The gateway that a chargeback takes the money from; null for other reasons. */
      readonly gateway: string | null
      /** The deposit whose payment went back; absent where it is moved by hand. */
      readonly depositId?: string
      readonly amountMicros: number
    }
  /** The credit of a reseller's customer. */
  | {
      readonly kind: 'customer'
      /** The reseller. */
      readonly accountId: string
      readonly customerId: string
      readonly reference: string
      readonly reason: CustomerAdjustmentReason
      /** As above, of the reseller's own gateway. */
      readonly gateway: string | null
      readonly depositId?: string
      readonly amountMicros: number
    }

/**
 * The `deposit-{id}` stream of a movement by hand, which spends its reference for ever: recorded with
 * all that is to move, then applied once the wallet has it. Withdrawn: the wallet refused it after it was recorded.
 */
export type ManualMovementRecorded = DomainEvent<'ManualMovementRecorded', ManualMovement>
export type ManualMovementApplied = DomainEvent<
  'ManualMovementApplied',
  { readonly accountId: string; readonly reference: string }
>
export type ManualMovementWithdrawn = DomainEvent<
  'ManualMovementWithdrawn',
  { readonly accountId: string; readonly reference: string }
>

export type ManualMovementEvent = ManualMovementRecorded | ManualMovementApplied | ManualMovementWithdrawn
