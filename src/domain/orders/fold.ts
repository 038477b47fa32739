import { applyDecided, type Fold } from '../../kernel/decider.ts'
import type { OrderId, ProxyId } from '../../kernel/ids.ts'
import { orderStream } from '../../kernel/streams.ts'
import type { CustomerOrder, OrderDetails, ShownDetails } from '../shared/order-terms.ts'
import type { CancelReason, OrderEvent, OrderFailureReason } from './events.ts'

/** The public names of docs/reference/api.md, "Orders". Webhooks and reads use them too. */
export const orderStatuses = [
  'awaiting_payment',
  'processing',
  'completed',
  'failed',
  'refunded',
  'canceled',
] as const

export type OrderStatus = (typeof orderStatuses)[number]

export type Refund = {
  readonly refundId: string
  readonly amountCents: number
  /** The refunded part of the reseller's cost, on an order for a customer. */
  readonly costCents?: number
  readonly proxyIds: readonly ProxyId[]
  /** The operator's reference. */
  readonly reference?: string
  readonly decidedAtMs: number
  /** The money was paid back. */
  readonly landed: boolean
}

/** The invoice that an order waits for. */
type Awaiting = {
  readonly depositId: string
  /**
   * Set if the payment arrived and the reseller's wallet does not have enough: the order is tried again until then. ISO
   * 8601 UTC.
   */
  readonly heldUntil: string | null
  /** What the wallet lacked when the payment arrived, whole cents. Null: nothing. */
  readonly missingCents: number | null
}

/** An order according to its stream. */
export type Order = {
  readonly details: OrderDetails
  readonly status: OrderStatus
  /** Whether it was paid. An unpaid order cannot be refunded. */
  readonly paid: boolean
  /** The last invoice of the order; null if it was paid at once. */
  readonly awaiting: Awaiting | null
  readonly balanceCents: number
  readonly planId: string | null
  readonly proxyIds: readonly ProxyId[]
  readonly fulfilledAt: string | null
  readonly failedAt: string | null
  readonly failureReason: OrderFailureReason | null
  readonly canceledAt: string | null
  /** Also null if the order was canceled before reasons were recorded. */
  readonly cancelReason: CancelReason | null
  readonly refundedAt: string | null
  readonly refundedCents: number
  /** Like `refundedCents`, for the reseller's cost; 0 on an order that is not for a customer. */
  readonly refundedCostCents: number
  readonly refunds: readonly Refund[]
}

/**
 * An order as reads return it: without `refunds`, which only decisions use, without what the wallet lacked at some
 * time, and without the digests.
 */
export type ShownOrder = Omit<Order, 'refunds' | 'details' | 'awaiting'> & {
  readonly details: ShownDetails
  readonly awaiting: Omit<Awaiting, 'missingCents'> | null
}

/** What orders wait for: the payment of their invoice, or the reseller's wallet after its customer paid. */
export const orderWaits = ['payment', 'wallet'] as const

/** What the order waits for; null: for nothing. */
export const waitsFor = ({
  status,
  awaiting,
}: Pick<Order, 'status'> & {
  readonly awaiting: Pick<Awaiting, 'heldUntil'> | null
}): (typeof orderWaits)[number] | null => {
  if (status !== 'awaiting_payment') return null
  return (awaiting?.heldUntil ?? null) === null ? 'payment' : 'wallet'
}

/** Null: the order does not exist. */
export type OrderState = Order | null

/** The sum of all decided refunds of an order, cents, whether or not the money was paid back. */
export const decidedRefundCents = (order: Order): number =>
  order.refunds.reduce((sum, refund) => sum + refund.amountCents, 0)

/** The same for the reseller's cost, cents; 0 on an order that is not for a customer. */
export const decidedRefundCostCents = (order: Order): number =>
  order.refunds.reduce((sum, { costCents = 0 }) => sum + costCents, 0)

const newOrder = (order: OrderDetails, balanceCents: number): Order => ({
  details: order,
  status: 'processing',
  paid: true,
  awaiting: null,
  balanceCents,
  planId: order.planId,
  proxyIds: [],
  fulfilledAt: null,
  failedAt: null,
  failureReason: null,
  canceledAt: null,
  cancelReason: null,
  refundedAt: null,
  refundedCents: 0,
  refundedCostCents: 0,
  refunds: [],
})

const evolve: Fold<OrderState, OrderEvent>['evolve'] = (state, event) => {
  if (event.type === 'OrderPlaced') return newOrder(event.data.order, event.data.balanceCents)
  if (event.type === 'OrderCompleted') {
    const { order, balanceCents, proxyIds, fulfilledAt } = event.data
    return { ...newOrder(order, balanceCents), status: 'completed', proxyIds, fulfilledAt }
  }
  if (event.type === 'OrderAwaitingPayment') {
    const { order, depositId, balanceCents } = event.data
    const awaiting = { depositId, heldUntil: null, missingCents: null }
    const unpaid = { status: 'awaiting_payment', paid: false, planId: null } as const
    return { ...newOrder(order, balanceCents), ...unpaid, awaiting }
  }
  if (!state) throw new Error(`${event.type} on an order that was never placed`)
  switch (event.type) {
    case 'OrderPaid': {
      const { order, balanceCents } = event.data
      const unpaid = state.failedAt === null && state.canceledAt === null
      const status = unpaid ? 'processing' : state.status
      return { ...state, details: order, status, paid: true, balanceCents, planId: order.planId }
    }
    case 'OrderHeld': {
      if (!state.awaiting) throw new Error('an order that waits for no invoice is not held')
      const { until: heldUntil, missingCents = null } = event.data
      return { ...state, awaiting: { ...state.awaiting, heldUntil, missingCents } }
    }
    case 'OrderCanceled':
      return {
        ...state,
        status: 'canceled',
        canceledAt: event.data.canceledAt,
        cancelReason: event.data.reason ?? null,
      }
    case 'OrderFulfilled': {
      const { planId, proxyIds, fulfilledAt } = event.data
      return { ...state, status: 'completed', planId, proxyIds, fulfilledAt }
    }
    case 'OrderFailed': {
      const { reason, failedAt } = event.data
      return { ...state, status: 'failed', failureReason: reason, failedAt }
    }
    case 'RefundDecided': {
      const { orderId: _orderId, reason: _reason, ...refund } = event.data
      const decided = { ...refund, decidedAtMs: event.recordedAtMs, landed: false }
      return { ...state, refunds: [...state.refunds, decided] }
    }
    case 'OrderRefunded': {
      const { refundId, refundedCents, costCents = 0, complete, refundedAt } = event.data
      return {
        ...state,
        status: complete ? 'refunded' : state.status,
        refundedCents,
        refundedCostCents: state.refundedCostCents + costCents,
        refundedAt,
        refunds: state.refunds.map((refund) =>
          refund.refundId === refundId ? { ...refund, landed: true } : refund,
        ),
      }
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown order event ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * The order after events that were just decided. `atMs` becomes the decision time of refunds.
 * @throws if there is no order and no event creates one
 */
export const orderAfter = (state: OrderState, events: readonly OrderEvent[], atMs = 0): Order => {
  const after = applyDecided(orderFold, state, events, atMs)
  if (!after) throw new Error('no event makes no order')
  return after
}

/** The state of `order-{id}`. An order has few events, so it is never snapshotted. */
export const orderFold: Fold<OrderState, OrderEvent> = {
  name: 'order',
  version: 1,
  initial: null,
  usedOnce: true,
  evolve,
}

/** The stream reference of an order for a command. */
export const orderRef = (order: OrderId) => ({ stream: orderStream(order), fold: orderFold })
export const isCustomerOrder = (order: OrderDetails): order is CustomerOrder => {
  if (order.customerId === null) return false
  if (order.costCents === undefined) throw new Error(`order ${order.orderId} names a customer and no cost`)
  return true
}
