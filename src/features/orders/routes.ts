import type pg from 'pg'
import { z } from 'zod'
import type { PayUrlOf } from '../../../projections/deposits.ts'
import { type AwaitedInvoice, type FoundOrder, findOrder, listOrders } from '../../../projections/orders.ts'
import { orderIdsOfSubscription } from '../../../projections/subscriptions.ts'
import { type Catalog, metaOf } from '../../domain/catalog/catalog.ts'
import { cancelReasons } from '../../domain/orders/events.ts'
import { orderStatuses, orderWaits, type ShownOrder, waitsFor } from '../../domain/orders/fold.ts'
import { families, orderMethods } from '../../domain/shared/order-terms.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { idempotentAnswer } from '../../platform/http/answer.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { refuse } from '../../platform/http/errors.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { pageShape, pagingCodes, pagingQuery, wordQuery } from '../../platform/http/query.ts'
import { idempotentResponses, type Route, type RouteError, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { customerField, customerIdField, customerRefs } from '../accounts/index.ts'
import type { CancelOrder } from './cancel-order.ts'
import { isOrderKey, orderOf, type PlaceOrder } from './place-order.ts'

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

/** The public order (docs/reference/api.md, "Orders"): the answer of create and read, and the content of webhooks. */
export const OrderRecord = z
  .object({
    orderId: z.string(),
    status: namedEnum('OrderStatus', orderStatuses),
    kind: namedEnum('OrderKind', ['order', 'topup', 'extension']),
    productId: z.string(),
    family: namedEnum('ProductFamily', families),
    shape: namedEnum('ProductShape', ['gateway_gb', 'gateway_time', 'addresses', 'addresses_mobile']),
    delivery: namedEnum('ProductDelivery', ['lines', 'addresses']),
    quantity: z.int(),
    unit: z.string(),
    unitPriceCents: cents.meta({
      description:
        'The amount divided by the quantity, rounded, in whole cents. `amountCents` is the binding price.',
    }),
    amountCents: cents.meta({
      description:
        "The price of the order in whole cents. For a customer's order: the price for the customer. The price is not charged while the order awaits its payment, and is never charged if the order is canceled or fails before its payment.",
    }),
    refundedCents: cents.meta({ description: 'The refunded part of the amount, in whole cents.' }),
    currency: z.literal('USD'),
    method: z.string(),
    billingType: z.literal('PAYG'),
    fulfillmentMeta,
    subscriptionId: z.string().nullable().meta({
      description: 'The id of the subscription whose period the order pays. Null: any other order.',
    }),
    planId: z.string().nullable(),
    proxyIds: z.array(z.string()),
    depositId: z.string().nullable().meta({
      description:
        'The id of the latest invoice for the order, for `GET /deposits/{id}`. Null: the order was paid at once.',
    }),
    chargeCents: cents.nullable().meta({
      description:
        "The amount that the pay page charges while the order awaits its payment, in whole cents: `amountCents`, or for a customer's order the missing credit, plus the debt of the payer, raised to the minimum of the rail. The excess is credited. Null: any other order.",
    }),
    owedCents: cents.optional().meta({
      description:
        'The debt of the payer after a refund or a dispute, in whole cents, while the order awaits its payment. The payment pays it first. Left out: there is no debt.',
    }),
    shortfallCents: cents.optional().meta({
      description:
        'What is missing for the order after a payment of `chargeCents`, in whole cents: a debt arose, or the credit was spent, after the pay page was opened. Without a further payment before that one, the order is not placed; a retry of the order opens a page for the whole amount. Left out: nothing is missing.',
    }),
    payUrl: z.string().nullable().meta({
      description:
        'The URL of the pay page while the order awaits its payment. Null: no payment is possible, because the invoice expired or closed, or because the order is paid, canceled or failed.',
    }),
    waitsFor: namedEnum('OrderWaitsFor', orderWaits).nullable().meta({
      description:
        'What the order waits for. `payment`: the payment of its pay page. `wallet`: the customer paid, and the balance of your wallet is below your cost. The order is placed by itself as soon as your wallet has the cost. Null: the order does not wait.',
    }),
    waitsUntil: instant.nullable().meta({
      description:
        'When an order that waits for your wallet fails, 24 hours after the payment. Null: any other order.',
    }),
    walletShortfallCents: cents.optional().meta({
      description:
        "On a reseller key only, if the order waits for your wallet: what the wallet lacks for this order now, in whole cents, with the wallet's debt. Each order that waits needs its own amount.",
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
        'The reason of the failure. `insufficient_balance`: the customer paid, and your wallet was still short after 24 hours. Null: the order did not fail.',
    }),
    cancelReason: namedEnum('OrderCancelReason', cancelReasons).nullable().meta({
      description:
        'The reason of the cancellation. `invoice_expired`: no payment arrived in time. `payment_failed`: the payment failed, or its gateway was removed. `underpaid`: the invoice closed with less than its amount. `insufficient_balance`: the payment arrived, but the balance of the wallet, or the credit of the customer, was still too low; or the customer spent the credit, or took the payment back, while the order waited for your wallet. `requested`: `POST /orders/{id}/cancel`. All payments are in the wallet or in the credit. Null: the order is not canceled, or a version before 0.2.0 canceled it.',
    }),
    balanceCents: cents.meta({
      description: 'The wallet balance directly after the debit for this order, in whole cents.',
    }),
    yourCostCents: cents.optional().meta({
      description:
        "On a reseller key only: the amount that the reseller's wallet was debited, in whole cents.",
    }),
    refundedCostCents: cents.optional().meta({
      description:
        "On a reseller key only: the part of the cost that was refunded to the reseller's wallet, in whole cents.",
    }),
    ownPurchase: z.boolean().optional().meta({
      description:
        'On a reseller key only. True: the order named no customer, so the reseller bought for itself, at its cost. `X-Reseller-Customer-Id` sells to a customer.',
    }),
    marginCents: cents.optional().meta({
      description:
        'On a reseller key only: the customer price minus the cost at the time of the sale, in whole cents. A refund reduces the margin by `refundedCents` minus `refundedCostCents`.',
    }),
  })
  .meta({ id: 'Order' })

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
  const waits = waitsFor(order)
  const shortfallCents = invoice && waits === 'payment' ? invoice.shortfallCents : 0
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
    ...(invoice?.owedCents && { owedCents: invoice.owedCents }),
    ...(shortfallCents > 0 && { shortfallCents }),
    payUrl: invoice?.payUrl ?? null,
    waitsFor: waits,
    waitsUntil: waits === 'wallet' ? (order.awaiting?.heldUntil ?? null) : null,
    ...(reseller && waits === 'wallet' && invoice && { walletShortfallCents: invoice.walletShortfallCents }),
    customerId: details.customerId,
    customer: order.customer ?? null,
    createdAt: details.createdAt,
    fulfilledAt: order.fulfilledAt,
    failedAt: order.failedAt,
    canceledAt: order.canceledAt,
    refundedAt: order.refundedAt,
    failureReason: order.failureReason,
    cancelReason: order.cancelReason,
    balanceCents: order.balanceCents,
    ...(reseller && {
      ownPurchase: details.customerId === null,
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
  waitsFor: null,
  waitsUntil: null,
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

/** Body fields that have the checks of an order's fields (docs/reference/api.md, "Orders"). */
export const quantityField = z.int().min(1).meta({ description: 'The number of units of the product.' })
export const methodField = namedEnum('OrderMethod', orderMethods).optional().meta({
  description:
    'The payment method. Left out: the wallet pays. For a rail with a live gateway, the answer has the URL of a pay page.',
})
export const guardField = z.int().min(0).optional().meta({
  description:
    'The quoted price in whole cents. If the price is different, the order is rejected with `price_changed`.',
})

/** The errors of every operation that charges a wallet. */
export const chargeErrors: readonly RouteError[] = [
  'idempotency_conflict',
  'product_unavailable',
  'price_changed',
  'spend_cap_reached',
  'insufficient_balance',
]

/** The errors of every operation that can open a pay page. */
export const payPageErrors: readonly RouteError[] = [
  'deposits_not_available',
  'invalid_amount',
  'gateway_unavailable',
]

/** The target of an order. Its values are refused by the product, which lists those that it accepts. */
export const metaField = (description: string) =>
  z
    .record(z.string(), z.json())
    .optional()
    .meta({
      description,
      override: {
        id: 'FulfillmentMeta',
        type: 'object',
        properties: {
          country: { type: 'string', pattern: '^[A-Za-z]{3}$' },
          period_days: { type: 'integer', minimum: 1 },
          carrier_id: { type: 'string' },
          service: { type: 'string' },
          rotation_minutes: { type: 'integer', minimum: 0 },
        },
        additionalProperties: false,
      },
    })

const Body = z.strictObject({
  product_id: z.string().meta({ description: 'A product id. Former ids of a product also work.' }),
  quantity: quantityField,
  fulfillment_meta: metaField(
    'The target of dedicated IPs: `country` (alpha-3), `period_days`, and for mobile products `carrier_id`, `service` and `rotation_minutes`.',
  ),
  method: methodField,
  expected_amount_cents: guardField,
})

const ordersPath = '/api/v1/orders'

/** Orders: docs/reference/api.md, "Orders". */
export const orderRoutes = (dependencies: {
  readonly placeOrder: PlaceOrder
  readonly cancelOrder: CancelOrder
  readonly log: Pick<EventLog, 'lastOf'>
  readonly catalog: { current(): Catalog }
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly payUrlOf: PayUrlOf
}): readonly Route[] => {
  const { placeOrder, cancelOrder, log, catalog, reads, db, pool, clock, payUrlOf } = dependencies

  const recordsOf = async ({ accountId, reseller }: Caller, found: readonly FoundOrder[]) => {
    const refs = await customerRefs(
      pool,
      accountId,
      found.map(({ details }) => details.customerId),
    )
    return found.map((order) => {
      const customer = refs.get(order.details.customerId) ?? null
      return orderRecord({ ...order, customer }, reseller)
    })
  }

  return [
    route({
      method: 'POST',
      path: ordersPath,
      operationId: 'createOrder',
      summary: 'Place an order',
      description:
        "Debits the wallet and delivers at once, or rejects the order before any charge. With a rail as `method`, the answer has the URL of a pay page, `payUrl`, which charges `chargeCents`. The payment pays a debt (`owedCents`) first and places the order. The rest stays in the wallet. If the invoice closes without payment, the order is canceled, with `canceledAt` and `cancelReason`. For a customer (`X-Reseller-Customer-Id`), the customer's credit pays the price and your wallet pays your cost. If the credit is too low, the 402 answer has a pay page for a live rail of yours, and its payment places the order under the same key. If that invoice closes, the order is canceled, too. A retry with the same `Idempotency-Key` returns the same order. While the order waits, a retry with another `method` opens another pay page, or pays from the wallet. A retry also opens another page if another amount is needed by now.",
      tag: 'Orders',
      access: 'buy',
      writes: true,
      idempotencyKey: 'required-for-resellers',
      customer: 'pays',
      body: Body,
      codes: {
        body: {
          product_id: { missing: 'missing_product' },
          quantity: 'invalid_quantity',
          method: { value: 'unsupported_method' },
        },
      },
      examples: {
        body: {
          product_id: 'isp-static',
          quantity: 2,
          fulfillment_meta: { country: 'USA', period_days: 30 },
          expected_amount_cents: 500,
        },
      },
      responses: idempotentResponses(OrderRecord, orderExample, {
        created: 'The order: paid and delivered, or with the page where it is to be paid.',
        existing: 'The earlier order with this Idempotency-Key, in its current state.',
      }),
      errors: [
        'unknown_product',
        'invalid_quantity',
        'invalid_country',
        'invalid_period',
        'invalid_targeting',
        'out_of_stock',
        ...chargeErrors,
        ...payPageErrors,
        'customer_credit_insufficient',
      ],
      knownKey: (caller, key) => isOrderKey(log, caller.accountId, key),
      handler: async (request) => {
        const { caller, body, customerRef } = request
        const { product_id: productId, quantity, fulfillment_meta: meta } = body
        const currentId = catalog.current().resolve(productId)?.id ?? productId
        const item = { kind: 'order', productId, quantity, meta } as const
        const placed = await placeOrder(orderOf({ ...request, path: ordersPath }, currentId, item))
        const { order, invoice = null } = placed
        return idempotentAnswer(
          placed,
          orderRecord({ ...order, invoice, customer: customerRef }, caller.reseller),
        )
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/orders/{id}',
      operationId: 'getOrder',
      summary: 'Read an order',
      description: 'One order of the account. Order webhooks use the same status values.',
      tag: 'Orders',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params: z.object({ id: z.string() }),
      examples: { params: { id: orderExample.orderId } },
      responses: { 200: { description: 'The order.', body: OrderRecord, example: orderExample } },
      errors: ['not_found'],
      handler: async ({ caller, scope, params, after }) => {
        await reads.settled(scope.accountId, after ?? 0)
        const order = await findOrder(db, scope, params.id, clock(), payUrlOf)
        if (!order) throw refuse('not_found', 'no order has this id')
        const [record] = await recordsOf(caller, [order])
        return { status: 200, body: record! }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/orders/{id}/cancel',
      operationId: 'cancelOrder',
      summary: 'Cancel an order that waits',
      description:
        "Cancels an order in the status `awaiting_payment`: nothing is charged, and its pay page is closed. If the customer has paid and the order waits for your wallet, the payment stays in the customer's credit. A payment that arrives later is credited, too (webhook `deposit.late_payment`). A repeated call returns the canceled order. An order that was placed meanwhile is not canceled: `order_not_waiting`.",
      tag: 'Orders',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params: z.object({ id: z.string() }),
      examples: { params: { id: orderExample.orderId } },
      responses: {
        200: {
          description: 'The canceled order.',
          body: OrderRecord,
          example: {
            ...orderExample,
            status: 'canceled',
            proxyIds: [],
            fulfilledAt: null,
            canceledAt: '2026-11-21T02:45:00.000Z',
            cancelReason: 'requested',
          },
        },
      },
      errors: ['not_found', 'order_not_waiting'],
      handler: async ({ caller, scope, params, requestId, after }) => {
        await reads.settled(scope.accountId, after ?? 0)
        const found = await findOrder(db, scope, params.id, clock(), payUrlOf)
        if (!found) throw refuse('not_found', 'no order has this id')
        const { accountId, keyId } = caller
        const cause = { actor: { kind: 'key', accountId, keyId }, correlationId: requestId } as const
        const { order, position } = await cancelOrder(found.details.orderId, cause)
        const refs = await customerRefs(pool, accountId, [order.details.customerId])
        const customer = refs.get(order.details.customerId) ?? null
        return { status: 200, body: orderRecord({ ...order, customer }, caller.reseller), position }
      },
    }),

    route({
      method: 'GET',
      path: ordersPath,
      operationId: 'listOrders',
      summary: 'List orders',
      description: "The account's orders, newest first.",
      tag: 'Orders',
      access: 'buy',
      writes: false,
      customer: 'limits',
      query: z.object({
        ...pagingQuery,
        status: wordQuery(orderStatuses, 'Only orders in this status.', 'OrderStatus').optional(),
        subscription_id: z
          .string()
          .optional()
          .meta({ description: 'Only orders for periods of this subscription.' }),
      }),
      codes: { query: pagingCodes },
      responses: {
        200: {
          description: 'A page of orders.',
          body: z.object({ orders: z.array(OrderRecord), ...pageShape }).meta({ id: 'OrderList' }),
          example: { orders: [orderExample], total: 1, limit: 50, offset: 0 },
        },
      },
      errors: [],
      handler: async ({ caller, scope, query, after }) => {
        const { limit, offset, status, subscription_id: subscription } = query
        await reads.settled(scope.accountId, after ?? 0)
        const orderIds =
          subscription === undefined
            ? undefined
            : await orderIdsOfSubscription(db, caller.accountId, subscription)
        const page = await listOrders(db, scope, { limit, offset, status, orderIds }, clock(), payUrlOf)
        const orders = await recordsOf(caller, page.orders)
        return { status: 200, body: { orders, total: page.total, limit, offset } }
      },
    }),
  ]
}

export type OrderRecord = z.infer<typeof OrderRecord>
