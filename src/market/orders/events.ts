import type { ProxyId } from '../../kernel/ids.ts'
import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import type { StockRefusal } from '../stock/events.ts'

/**
 * An `order-{id}` stream: the life of one order. Times are ISO 8601 UTC.
 *
 * Paid by what was there and fulfilled, in the one decision that placed it: the first event of nearly every order, and
 * mostly its only one. It says what `OrderPlaced` and `OrderFulfilled` say together
 * (docs/decisions/0040-orders-in-one-event.md).
 */
export type OrderCompleted = DomainEvent<
  'OrderCompleted',
  {
    readonly order: OrderDetails
    /** The floor of the wallet's available cents right after the debit. */
    readonly balanceCents: number
    readonly proxyIds: readonly ProxyId[]
    readonly fulfilledAt: string
  }
>
/** Paid by what was there. Logs from before `OrderCompleted` have it for fulfilled orders too. */
export type OrderPlaced = DomainEvent<
  'OrderPlaced',
  {
    readonly order: OrderDetails
    /** The floor of the wallet's available cents right after the debit. */
    readonly balanceCents: number
  }
>
export type OrderFulfilled = DomainEvent<
  'OrderFulfilled',
  {
    readonly orderId: string
    readonly accountId: string
    readonly planId: string | null
    readonly proxyIds: readonly ProxyId[]
    readonly fulfilledAt: string
  }
>
/**
 * The order's invoice is open: its own key stands for it from here on, at this price. Said again when the invoice closed
 * unpaid and the next one is open.
 */
export type OrderAwaitingPayment = DomainEvent<
  'OrderAwaitingPayment',
  {
    readonly order: OrderDetails
    readonly depositId: string
    /** The floor of the wallet's available cents at that moment; nothing left it. */
    readonly balanceCents: number
  }
>
/** An awaited order was paid, in the same append as the payment that came for it, or by what was there by then. */
export type OrderPaid = DomainEvent<
  'OrderPaid',
  {
    readonly orderId: string
    readonly accountId: string
    /** As it was paid: the price may have changed between two invoices. */
    readonly order: OrderDetails
    readonly balanceCents: number
  }
>
/** The customer's payment is there and the reseller's wallet is short: tried again on each of its credits until then. */
export type OrderHeld = DomainEvent<
  'OrderHeld',
  { readonly orderId: string; readonly accountId: string; readonly until: string }
>
/**
 * What became of the invoice that a canceled order waited for: nothing arrived in its time, its payment failed (or its
 * gateway was removed), it closed short, or it was paid while the wallet owed more than that.
 */
export const cancelReasons = [
  'invoice_expired',
  'payment_failed',
  'underpaid',
  'insufficient_balance',
] as const
export type CancelReason = (typeof cancelReasons)[number]
/** An own order whose invoice closed before it was paid. Money that still comes is credited. */
export type OrderCanceled = DomainEvent<
  'OrderCanceled',
  {
    readonly orderId: string
    readonly accountId: string
    readonly canceledAt: string
    /** Absent in logs from before it was written. */
    readonly reason?: CancelReason
  }
>
/** Why the arbiter refused. */
export type ArbiterRefusal = StockRefusal | 'plan_expired'
/** The others stop an order whose payment came: nothing of it is charged, and the money stays where it was credited. */
export type OrderFailureReason =
  | ArbiterRefusal
  | 'insufficient_balance'
  | 'spend_cap_reached'
  | 'account_blocked'
  | 'product_unavailable'
export type OrderFailed = DomainEvent<
  'OrderFailed',
  {
    readonly orderId: string
    readonly accountId: string
    readonly reason: OrderFailureReason
    readonly failedAt: string
  }
>
export type RefundDecided = DomainEvent<
  'RefundDecided',
  {
    readonly orderId: string
    readonly refundId: string
    readonly amountCents: number
    /** The part of the reseller's cost that comes back with it; present on an order for a customer only. */
    readonly costCents?: number
    /** The rentals that the refund ends, unless an extension has paid for them; empty for a refund of money only. */
    readonly proxyIds: readonly ProxyId[]
    readonly reason: 'order_failed' | 'operator'
    /** What the operator gave as the reference; left out where there is none. */
    readonly reference?: string
  }
>
/** A decided refund reached the wallet, and the customer's credit where it paid. */
export type OrderRefunded = DomainEvent<
  'OrderRefunded',
  {
    readonly orderId: string
    readonly accountId: string
    readonly refundId: string
    readonly amountCents: number
    /** As in `RefundDecided`. */
    readonly costCents?: number
    /** The sum of all refunds of the order so far. */
    readonly refundedCents: number
    /** Nothing of the order is left: its status becomes `refunded`. */
    readonly complete: boolean
    readonly refundedAt: string
  }
>

export type OrderEvent =
  | OrderCompleted
  | OrderPlaced
  | OrderAwaitingPayment
  | OrderPaid
  | OrderHeld
  | OrderFulfilled
  | OrderFailed
  | OrderCanceled
  | RefundDecided
  | OrderRefunded
