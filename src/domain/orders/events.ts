import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  cents,
  flag,
  id,
  list,
  oneOf,
  orAbsent,
  orNull,
  pastTime,
  text,
  time,
} from '../../kernel/event-fields.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { wholeOrder } from '../shared/order-terms.ts'
import { stockRefusals } from '../stock/events.ts'

/** An `order-{id}` stream has the events of one order. */
const stream = 'order-{order}'

const balanceCents = cents('0 or more', "the floor of the wallet's available cents right after the debit")
const proxyIds = list(id<ProxyId>('prx', 'a rental'), 'its rentals; empty for a plan')
const orderId = id('ord', 'the order')
const idFields = { orderId, accountId: id('acc', 'the account of the buyer') }
const fulfilledAt = pastTime('when it was fulfilled')

/**
 * The first event of nearly every order, and mostly the only one. It replaces `OrderPlaced` and `OrderFulfilled`
 * together (docs/decisions/0008).
 */
export const orderCompleted = defineEvent('OrderCompleted', {
  stream,
  means: 'Paid from the balance and fulfilled, in the decision that placed it.',
  fields: { order: wholeOrder, balanceCents, proxyIds, fulfilledAt },
})
export const orderPlaced = defineEvent('OrderPlaced', {
  stream,
  means: 'Paid from the balance. Logs from before `OrderCompleted` have it for fulfilled orders too.',
  fields: { order: wholeOrder, balanceCents },
})
export const orderFulfilled = defineEvent('OrderFulfilled', {
  stream,
  means: 'The order was fulfilled.',
  fields: {
    ...idFields,
    planId: orNull(id('pln', 'the plan that it opened or added to; null for addresses')),
    proxyIds,
    fulfilledAt,
  },
})
export const orderAwaitingPayment = defineEvent('OrderAwaitingPayment', {
  stream,
  means:
    "The order's invoice is open: its key now names the order, at this price. Appended again when the invoice closed unpaid and the next one is open.",
  fields: {
    order: wholeOrder,
    depositId: id('dep', 'the invoice'),
    balanceCents: cents(
      '0 or more',
      "the floor of the wallet's available cents at that moment; nothing left it",
    ),
  },
})
export const orderPaid = defineEvent('OrderPaid', {
  stream,
  means: 'An awaited order was paid, in the same append as its payment, or from the balance at that time.',
  fields: {
    ...idFields,
    /** The price may have changed between two invoices. */
    order: wholeOrder,
    balanceCents,
  },
})
export const orderHeld = defineEvent('OrderHeld', {
  stream,
  means:
    "The customer has paid and the reseller's wallet is short: each credit of the wallet triggers another attempt until then.",
  fields: {
    ...idFields,
    missingCents: orAbsent(
      cents(
        'above 0',
        "what the wallet lacked for the cost at that moment, with the wallet's debt. Absent before 0.2.0",
      ),
    ),
    until: time('the time at which it fails'),
  },
})
/**
 * Why an order was canceled: no payment arrived in time, the payment failed or the gateway was removed, the invoice
 * closed underpaid, it was paid while the payer owed more than that, or the account canceled the order.
 */
export const cancelReasons = [
  'invoice_expired',
  'payment_failed',
  'underpaid',
  'insufficient_balance',
  'requested',
] as const
export type CancelReason = (typeof cancelReasons)[number]
export const orderCanceled = defineEvent('OrderCanceled', {
  stream,
  means:
    'The invoice of the order closed before it was paid, or the order was canceled while it waited. Later money is credited.',
  fields: {
    ...idFields,
    canceledAt: pastTime('when'),
    reason: orAbsent(oneOf(cancelReasons, 'why; absent in older logs')),
  },
})
/** Why the allocation owner refused. */
const allocationRefusalReasons = [...stockRefusals, 'plan_expired'] as const
export type AllocationRefusalReason = (typeof allocationRefusalReasons)[number]
/**
 * The reasons after those of the allocation owner stop an order whose payment arrived. Nothing is charged, and the
 * money stays where it was credited.
 */
const failureReasons = [
  ...allocationRefusalReasons,
  'insufficient_balance',
  'spend_cap_reached',
  'account_blocked',
  'product_unavailable',
] as const
export type OrderFailureReason = (typeof failureReasons)[number]
export const orderFailed = defineEvent('OrderFailed', {
  stream,
  means: 'The order was not fulfilled; a refund returns the payment.',
  fields: { ...idFields, reason: oneOf(failureReasons, 'why'), failedAt: pastTime('when') },
})

const refundId = text('the refund')
const costCents = orAbsent(
  cents('0 or more', "the refunded part of the reseller's cost; only for an order for a customer"),
)
export const refundDecided = defineEvent('RefundDecided', {
  stream,
  means: 'A refund of this amount to the payer was decided. No money has moved yet.',
  fields: {
    orderId,
    refundId,
    amountCents: cents('0 or more', 'the refund of the payer'),
    costCents,
    proxyIds: list(
      id<ProxyId>('prx', 'a rental'),
      'the rentals that end, unless an extension has paid for them; empty for a refund of money only',
    ),
    reason: oneOf(['order_failed', 'operator'], 'why'),
    reference: orAbsent(text("the operator's reference; absent if there is none")),
  },
})
export const orderRefunded = defineEvent('OrderRefunded', {
  stream,
  means: 'A decided refund reached the wallet, and the credit of the customer who paid.',
  fields: {
    ...idFields,
    refundId,
    amountCents: cents('0 or more', 'of this refund'),
    costCents,
    refundedCents: cents('0 or more', 'the sum of all refunds of the order so far'),
    complete: flag('the order is completely refunded: its status becomes `refunded`'),
    refundedAt: pastTime('when'),
  },
})

export type OrderCompleted = EventOf<typeof orderCompleted>
export type OrderPlaced = EventOf<typeof orderPlaced>
export type OrderFulfilled = EventOf<typeof orderFulfilled>
export type OrderAwaitingPayment = EventOf<typeof orderAwaitingPayment>
export type OrderPaid = EventOf<typeof orderPaid>
export type OrderHeld = EventOf<typeof orderHeld>
export type OrderCanceled = EventOf<typeof orderCanceled>
export type OrderFailed = EventOf<typeof orderFailed>
export type RefundDecided = EventOf<typeof refundDecided>
export type OrderRefunded = EventOf<typeof orderRefunded>

export const orderEventDefinitions = [
  orderCompleted,
  orderPlaced,
  orderAwaitingPayment,
  orderPaid,
  orderHeld,
  orderFulfilled,
  orderFailed,
  orderCanceled,
  refundDecided,
  orderRefunded,
] as const
export type OrderEvent = EventOf<(typeof orderEventDefinitions)[number]>
