import { z } from 'zod'
import { metaOf } from '../catalog/how-to.ts'
import { customerField, customerIdField } from '../customers/named.ts'
import { type Order, orderStatuses, type ShownOrder } from './fold.ts'

const instant = z.string().meta({ format: 'date-time' })
const cents = z.int()

/** What was asked for, as `metaOf` writes it; null of a gateway product. */
export const fulfillmentMeta = z
  .object({
    country: z.string(),
    period_days: z.int(),
    carrier_id: z.string().nullable().optional(),
    service: z.string().nullable().optional(),
    rotation_minutes: z.int().nullable().optional(),
  })
  .nullable()

/** The public order (decisions.md, "Orders"): the answer of create and read, and what webhooks carry. */
export const OrderRecord = z
  .object({
    orderId: z.string(),
    status: z.enum(orderStatuses),
    kind: z.enum(['order', 'topup', 'extension']),
    productId: z.string(),
    family: z.enum(['residential', 'isp', 'mobile', 'ipv4', 'ipv6']),
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
    payUrl: z
      .string()
      .nullable()
      .meta({ description: 'Where an order that awaits its payment is paid; else null.' }),
    customerId: customerIdField,
    customer: customerField,
    createdAt: instant,
    fulfilledAt: instant.nullable(),
    failedAt: instant.nullable(),
    refundedAt: instant.nullable(),
    failureReason: z.string().nullable().meta({
      description:
        "Why it failed. On a customer's order that awaits its payment: `insufficient_balance`, when the payment came and your wallet is short; it is tried again on each of its credits for 24 hours.",
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

/** Its customer paid and the reseller's wallet is short: it is tried again. */
const isHeld = ({ status, awaiting }: Pick<Order, 'status' | 'awaiting'>): boolean =>
  status === 'awaiting_payment' && (awaiting?.heldUntil ?? null) !== null

/**
 * The public record of an order; `reseller` adds cost and margin: an order for itself costs what it is charged.
 * `customer` is the reseller's own id of whom it is for.
 */
export const orderRecord = (
  order: ShownOrder & { readonly payUrl?: string | null; readonly customer?: string | null },
  reseller: boolean,
): OrderRecord => {
  const { details } = order
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
    payUrl: order.status === 'awaiting_payment' ? (order.payUrl ?? null) : null,
    customerId: details.customerId,
    customer: order.customer ?? null,
    createdAt: details.createdAt,
    fulfilledAt: order.fulfilledAt,
    failedAt: order.failedAt,
    refundedAt: order.refundedAt,
    failureReason: order.failureReason ?? (isHeld(order) ? 'insufficient_balance' : null),
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
  payUrl: null,
  customerId: null,
  customer: null,
  createdAt: '2026-11-21T02:30:00.000Z',
  fulfilledAt: '2026-11-21T02:30:00.000Z',
  failedAt: null,
  refundedAt: null,
  failureReason: null,
  balanceCents: 99500,
}
