import type { DomainEvent } from '../eventstore/event.ts'
import type { ProxyId } from '../ids.ts'
import type { OrderDetails } from './details.ts'

/** An `order-{id}` stream: the life of one order (design sections 5 and 6). Times are ISO 8601 UTC. */
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
export type OrderFailureReason = 'out_of_stock' | 'plan_expired' | 'rental_ended'
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
    /** The rentals that the refund ends; empty for a refund of money only. */
    readonly proxyIds: readonly ProxyId[]
    readonly reason: 'order_failed' | 'operator'
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

export type OrderEvent = OrderPlaced | OrderFulfilled | OrderFailed | RefundDecided | OrderRefunded
