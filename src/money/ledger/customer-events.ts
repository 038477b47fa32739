import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import type { CustomerAdjustmentReason } from './adjustment-reason.ts'

/**
 * The money events of a reseller's customers. They stand on the reseller's own `ledger-{account}` stream, so that its
 * wallet and a customer's credit move in one append. `availableAfterMicros` is the reseller's wallet
 * less open holds, `creditAfterMicros` the customer's credit, both right after the event. Amounts are positive
 * micro-dollars unless said otherwise.
 */

/** A customer paid the reseller's own gateway. What it owes from a chargeback is paid first. */
export type CustomerCredited = DomainEvent<
  'CustomerCredited',
  {
    readonly customerId: string
    /** The payment's id at the provider: with `gateway` it is credited once, whichever customer it is for. */
    readonly reference: string
    readonly gateway: string
    readonly depositId: string
    readonly amountMicros: number
    /** The part of the amount that paid the customer's debt; 0 without one. */
    readonly receivableMicros: number
    readonly creditAfterMicros: number
    readonly availableAfterMicros: number
  }
>

/** An order for a customer was paid: its price from the customer's credit, the cost from the reseller's wallet. */
export type CustomerCharged = DomainEvent<
  'CustomerCharged',
  {
    readonly customerId: string
    /** The whole order, its customer price and its cost. */
    readonly order: OrderDetails
    /** The customer's price; 0 when the reseller gives it away. */
    readonly amountMicros: number
    /** What left the reseller's wallet. */
    readonly costMicros: number
    readonly creditAfterMicros: number
    readonly availableAfterMicros: number
  }
>

/** A part of an order for a customer came back, on both sides; either part may be 0, not both. */
export type CustomerRefunded = DomainEvent<
  'CustomerRefunded',
  {
    readonly customerId: string
    /** The refund's id. */
    readonly reference: string
    readonly orderId: string
    /** The family whose revenue the service gives back. */
    readonly family: string
    readonly amountMicros: number
    /** The part of the amount that paid the customer's debt. */
    readonly receivableMicros: number
    readonly costMicros: number
    /** The part of the cost that paid the reseller's own debt at the service. */
    readonly walletReceivableMicros: number
    readonly creditAfterMicros: number
    readonly availableAfterMicros: number
  }
>

export type CustomerAdjusted = DomainEvent<
  'CustomerAdjusted',
  {
    readonly customerId: string
    /** What the operator wrote, or the chargeback's id: it moves a customer's credit once. */
    readonly reference: string
    readonly reason: CustomerAdjustmentReason
    /** The gateway that a chargeback takes the money from; null for other reasons. */
    readonly gateway: string | null
    /** The deposit whose payment went back; absent on what was adjusted by hand, and on chargebacks before 0.2.0. */
    readonly depositId?: string
    /** Signed. */
    readonly amountMicros: number
    /** What the credit was short of at a chargeback (added to the debt), or what an upward one paid of it (negative). */
    readonly receivableMicros: number
    readonly creditAfterMicros: number
    readonly availableAfterMicros: number
  }
>

export type CustomerEvent = CustomerCredited | CustomerCharged | CustomerRefunded | CustomerAdjusted
