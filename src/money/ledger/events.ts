import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import type { AdjustmentReason } from './adjustment-reason.ts'
import type { CustomerEvent } from './customer-events.ts'

/**
 * The money events of a `ledger-{account}` stream. Amounts are positive integer micro-dollars unless
 * said otherwise. `availableAfterMicros` is the wallet less open holds right after the event: an auditor checks it.
 */

/** A deposit, an operator's credit or a refund landed. A debt from a chargeback is paid first. */
export type WalletCredited = DomainEvent<
  'WalletCredited',
  {
    readonly source: 'deposit' | 'manual' | 'refund'
    /** What makes it unique in the account: the provider's payment id, the operator's reference, the refund's id. */
    readonly reference: string
    /** The gateway that holds the money; `manual` for an operator's credit, null for a refund. */
    readonly gateway: string | null
    readonly depositId: string | null
    readonly orderId: string | null
    /** The family whose revenue a refund takes back; null for other sources. */
    readonly family: string | null
    readonly amountMicros: number
    /** The part of the amount that paid the receivable; 0 without one. */
    readonly receivableMicros: number
    readonly availableAfterMicros: number
  }
>

export type WalletAdjusted = DomainEvent<
  'WalletAdjusted',
  {
    readonly reference: string
    readonly reason: AdjustmentReason
    /** The gateway that a chargeback takes the money from; null for other reasons. */
    readonly gateway: string | null
    /** The deposit whose payment went back; absent on what was adjusted by hand, and on chargebacks before 0.2.0. */
    readonly depositId?: string
    /** Signed. */
    readonly amountMicros: number
    /** What the wallet was short of at a chargeback (added to the receivable), or what an upward one paid of it (negative). */
    readonly receivableMicros: number
    readonly availableAfterMicros: number
  }
>

/** An order was paid from the wallet; it carries the whole order. */
export type WalletDebited = DomainEvent<
  'WalletDebited',
  { readonly order: OrderDetails; readonly amountMicros: number; readonly availableAfterMicros: number }
>

/** What a hold reserves money for. */
export type HeldFor = {
  /** Whose revenue a capture is, e.g. `tiktok`. */
  readonly platform: string
  /** What is called of the platform, e.g. `profile`, and the `X-Request-Id` of the call. */
  readonly operation?: string
  readonly requestId?: string
}

/** A reserve for a call that is billed when it succeeds. */
export type FundsHeld = DomainEvent<
  'FundsHeld',
  HeldFor & {
    readonly holdId: string
    readonly keyId: string | null
    readonly amountMicros: number
    readonly availableAfterMicros: number
  }
>

export type HoldCaptured = DomainEvent<
  'HoldCaptured',
  HeldFor & {
    readonly holdId: string
    readonly amountMicros: number
    readonly availableAfterMicros: number
  }
>

export type HoldReleased = DomainEvent<
  'HoldReleased',
  HeldFor & {
    readonly holdId: string
    readonly amountMicros: number
    readonly availableAfterMicros: number
  }
>

export type LedgerEvent =
  | WalletCredited
  | WalletAdjusted
  | WalletDebited
  | FundsHeld
  | HoldCaptured
  | HoldReleased
  | CustomerEvent
