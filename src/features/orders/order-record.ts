import { z } from 'zod'
import type { AwaitedInvoice } from '../../../projections/orders.ts'
import { metaOf } from '../../domain/catalog/catalog.ts'
import { cancelReasons } from '../../domain/orders/events.ts'
import { type Order, orderStatuses, type ShownOrder } from '../../domain/orders/fold.ts'
import { families } from '../../domain/shared/order-terms.ts'
import { customerField, customerIdField } from '../accounts/index.ts'

const instant = z.string().meta({ format: 'date-time' })
const cents = z.int()

/** The requested targeting, as `metaOf` writes it; null for a gateway product. */
export const fulfillmentMeta = z
  .object({
    country: z.string(),
    period_days: z.int(),
    carrier_id: z.string().nullable().optional(),
    service: z.string().nullable().optional(),
    rotation_minutes: z.int().nullable().optional(),
  })
  .nullable()

/** The public order (docs/http-api.md, "Orders"): the answer of create and read, and the content of webhooks. */
export const OrderRecord = z
  .object({
    orderId: z.string(),
    status: z.enum(orderStatuses),
    kind: z.enum(['order', 'topup', 'extension']),
    productId: z.string(),
    family: z.enum(families),
    shape: z.enum(['gateway_gb', 'gateway_time', 'addresses', 'addresses_mobile']),
    delivery: z.enum(['lines', 'addresses']),
    quantity: z.int(),
    unit: z.string(),
    unitPriceCents: cents.meta({
      description: 'The amount divided by the quantity, rounded; the amount binds.',
    }),
    amountCents: cents.meta({
      description:
        "What was charged: the customer's price of an order for a customer. Nothing yet while it awaits its payment, and nothing of one that was canceled or failed before it was paid.",
    }),
    refundedCents: cents.meta({ description: 'What has come back of it.' }),
    currency: z.literal('USD'),
    method: z.string(),
    billingType: z.literal('PAYG'),
    fulfillmentMeta,
    subscriptionId: z.string().nullable().meta({
      description: 'The subscription of which the order pays a period; null for any other order.',
    }),
    planId: z.string().nullable(),
    proxyIds: z.array(z.string()),
    depositId: z.string().nullable().meta({
      description:
        'The invoice that was last opened for the order, for `GET /deposits/{id}`; null of an order that was paid at once.',
    }),
    chargeCents: cents.nullable().meta({
      description:
        "What the pay page of an order that awaits its payment charges: `amountCents`, or of a customer's order what its credit is short of, raised to the floor of the rail. What is over is credited. Null of any other order.",
    }),
    payUrl: z.string().nullable().meta({
      description:
        'Where an order that awaits its payment is paid; null once nothing can be paid there any more: its invoice expired or closed, or the order is paid, canceled or failed.',
    }),
    customerId: customerIdField,
    customer: customerField,
    createdAt: instant,
    fulfilledAt: instant.nullable(),
    failedAt: instant.nullable(),
    canceledAt: instant.nullable(),
    refundedAt: instant.nullable(),
    failureReason: z.string().nullable().meta({
      description:
        "Why it failed. On a customer's order that awaits its payment: `insufficient_balance`, when the payment came and your wallet is short; it is tried again on each of its credits for 24 hours.",
    }),
    cancelReason: z.enum(cancelReasons).nullable().meta({
      description:
        'Why it was canceled. `invoice_expired`: nothing was paid in time; `payment_failed`: the payment failed, or its gateway was removed; `underpaid`: the invoice closed with less than it asked for; `insufficient_balance`: it was paid, and the wallet was short all the same. What arrived is in the wallet. Null also of an order that a version before 0.2.0 canceled.',
    }),
    balanceCents: cents.meta({ description: 'The wallet right after the debit of this order.' }),
    yourCostCents: cents
      .optional()
      .meta({ description: 'On a reseller key: what the reseller was debited.' }),
    refundedCostCents: cents
      .optional()
      .meta({ description: 'On a reseller key: what of that came back to its wallet.' }),
    marginCents: cents.optional().meta({
      description:
        'On a reseller key: customer price less cost, as it was sold. A refund gives `refundedCents` less `refundedCostCents` of it back.',
    }),
  })
  .meta({ id: 'Order' })

export type OrderRecord = z.infer<typeof OrderRecord>

/** Whether the customer paid and the reseller's wallet is short, so that the order is retried. */
const isHeld = ({ status, awaiting }: Pick<Order, 'status' | 'awaiting'>): boolean =>
  status === 'awaiting_payment' && (awaiting?.heldUntil ?? null) !== null

/**
 * The public record of an order. `reseller` adds cost and margin: the cost of an own order is its charge.
 * `customer` is the reseller's own id of its customer.
 */
export const orderRecord = (
  order: ShownOrder & { readonly invoice?: AwaitedInvoice | null; readonly customer?: string | null },
  reseller: boolean,
): OrderRecord => {
  const { details } = order
  const invoice = order.status === 'awaiting_payment' ? order.invoice : null
  const costCents = details.costCents ?? details.amountCents
  return {
    orderId: details.orderId,
    status: order.status,
    kind: details.kind,
    productId: details.productId,
    family: details.family,
    shape: details.shape,
    delivery: details.delivery,
    quantity: details.quantity,
    unit: details.unit,
    unitPriceCents: details.unitPriceCents,
    amountCents: details.amountCents,
    refundedCents: order.refundedCents,
    currency: details.currency,
    method: details.method,
    billingType: details.billingType,
    fulfillmentMeta: details.target === null ? null : metaOf(details.target),
    subscriptionId: details.subscription?.subscriptionId ?? null,
    planId: order.planId,
    proxyIds: [...order.proxyIds],
    depositId: order.awaiting?.depositId ?? null,
    chargeCents: invoice?.chargeCents ?? null,
    payUrl: invoice?.payUrl ?? null,
    customerId: details.customerId,
    customer: order.customer ?? null,
    createdAt: details.createdAt,
    fulfilledAt: order.fulfilledAt,
    failedAt: order.failedAt,
    canceledAt: order.canceledAt,
    refundedAt: order.refundedAt,
    failureReason: order.failureReason ?? (isHeld(order) ? 'insufficient_balance' : null),
    cancelReason: order.cancelReason,
    balanceCents: order.balanceCents,
    ...(reseller && {
      yourCostCents: costCents,
      refundedCostCents: details.costCents === undefined ? order.refundedCents : order.refundedCostCents,
      marginCents: details.amountCents - costCents,
    }),
  }
}

export const orderExample: OrderRecord = {
  orderId: 'ord_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
  status: 'completed',
  kind: 'order',
  productId: 'isp-static',
  family: 'isp',
  shape: 'addresses',
  delivery: 'addresses',
  quantity: 2,
  unit: 'IP',
  unitPriceCents: 250,
  amountCents: 500,
  refundedCents: 0,
  currency: 'USD',
  method: 'wallet',
  billingType: 'PAYG',
  fulfillmentMeta: { country: 'USA', period_days: 30 },
  subscriptionId: null,
  planId: null,
  proxyIds: ['prx_0b9f4c5d2e315a6fb7c8d9e0f1a2b3c4', 'prx_7c1d8e9f0a2b5c4d9e6f7a8b9c0d1e2f'],
  depositId: null,
  chargeCents: null,
  payUrl: null,
  customerId: null,
  customer: null,
  createdAt: '2026-11-21T02:30:00.000Z',
  fulfilledAt: '2026-11-21T02:30:00.000Z',
  failedAt: null,
  canceledAt: null,
  refundedAt: null,
  failureReason: null,
  cancelReason: null,
  balanceCents: 99500,
}
