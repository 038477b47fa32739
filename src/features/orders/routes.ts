import type pg from 'pg'
import { z } from 'zod'
import type { PayUrlOf } from '../../../projections/deposits.ts'
import { type FoundOrder, findOrder, listOrders } from '../../../projections/orders.ts'
import { orderIdsOfSubscription } from '../../../projections/subscriptions.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { orderStatuses } from '../../domain/orders/fold.ts'
import { orderMethods } from '../../domain/shared/order-terms.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { refuse } from '../../platform/http/errors.ts'
import { pageShape, pagingCodes, pagingQuery, wordQuery } from '../../platform/http/query.ts'
import {
  idempotentAnswer,
  idempotentResponses,
  type Route,
  type RouteError,
  route,
} from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { customerRefs } from '../accounts/index.ts'
import { OrderRecord, orderExample, orderRecord } from './order-record.ts'
import { isOrderKey, orderOf, type PlaceOrder } from './place-order.ts'

/** Body fields that have the checks of an order's fields (docs/http-api.md, "Orders"). */
export const quantityField = z.int().min(1).meta({ description: 'Whole units of the product.' })
export const methodField = z.enum(orderMethods).optional().meta({
  description: 'Left out: the wallet pays. A rail answers a hosted page where it has a live gateway.',
})
export const guardField = z
  .int()
  .min(0)
  .optional()
  .meta({ description: 'The price that was quoted; another one is refused with price_changed.' })

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

const Body = z.strictObject({
  product_id: z.string().meta({ description: 'A product id, or an id that the product used to carry.' }),
  quantity: quantityField,
  fulfillment_meta: z.record(z.string(), z.json()).optional().meta({
    description:
      'Targeting of dedicated IPs: country (alpha-3), period_days, and for mobile carrier_id, service, rotation_minutes.',
  }),
  method: methodField,
  expected_amount_cents: guardField,
})

const ordersPath = '/api/v1/orders'

/** Orders: docs/http-api.md, "Orders". */
export const orderRoutes = (deps: {
  readonly placeOrder: PlaceOrder
  readonly log: Pick<EventLog, 'lastOf'>
  readonly catalog: { current(): Catalog }
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly payUrlOf: PayUrlOf
}): readonly Route[] => {
  const { placeOrder, log, catalog, reads, db, pool, clock, payUrlOf } = deps

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
        'Debits the wallet and delivers at once, or refuses before anything is charged. With a rail as `method` the answer is a pay page, `payUrl`, which charges `chargeCents`; the payment places the order, and what was charged above `amountCents` stays in the wallet. When its invoice closes unpaid the order is canceled, with `canceledAt` and `cancelReason`. For a customer (`X-Reseller-Customer-Id`) its credit pays the price and the wallet your cost; when the credit is short, the 402 carries a pay page for a rail of yours that is live, and its payment places the order under the same key. A retry with the same `Idempotency-Key` answers the same order.',
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
        made: 'The order: paid and delivered, or with the page where it is to be paid.',
        stood: 'The order that stands under this Idempotency-Key, as it is now.',
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
      description: 'One order of the account, with the status words that order webhooks use.',
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
        status: wordQuery(orderStatuses, 'Only orders in this status.').optional(),
        subscription_id: z
          .string()
          .optional()
          .meta({ description: 'Only orders that paid a period of this subscription.' }),
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
