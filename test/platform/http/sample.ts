import type { Server } from 'node:http'
import type { TestContext } from 'node:test'
import type { Logger } from 'pino'
import { Registry } from 'prom-client'
import { z } from 'zod'
import type { AccountId, CustomerId, KeyId } from '../../../src/kernel/ids.ts'
import { openApiDocument } from '../../../src/platform/api-docs/openapi-document.ts'
import type { Caller, Directory } from '../../../src/platform/http/auth.ts'
import { refuse } from '../../../src/platform/http/errors.ts'
import { createHttpMetrics } from '../../../src/platform/http/gauges.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../../src/platform/http/query.ts'
import type { Route } from '../../../src/platform/http/route.ts'
import { accountOnly, route } from '../../../src/platform/http/route.ts'
import type { HttpServerOptions } from '../../../src/platform/http/server.ts'
import { createHttpServer, shutDown } from '../../../src/platform/http/server.ts'
import { type HttpClient, httpClient } from '../../support/http.ts'

const caller = (name: string, over: Partial<Caller>): Caller => ({
  accountId: `acc_${name}` as AccountId,
  keyId: `key_${name}` as KeyId,
  capKeyId: `key_${name}` as KeyId,
  scopes: ['buy'],
  cap: null,
  reseller: false,
  blocked: false,
  email: `${name}@example.com`,
  ...over,
})

/** Keys of the sample directory, by what they are. */
const callers: ReadonlyMap<string, Caller> = new Map([
  ['buyer-key', caller('buyer', {})],
  ['scraper-key', caller('scraper', { scopes: ['scrape'] })],
  ['reseller-key', caller('reseller', { reseller: true })],
  ['blocked-key', caller('blocked', { blocked: true })],
])

/** As telling as need be. */
export const sampleCustomerId = (accountId: AccountId, ref: string): CustomerId =>
  `cus_${accountId}_${ref}` as CustomerId

export const sampleDirectory: Directory = { byKey: async (key) => callers.get(key) ?? null }

export const knownIdempotencyKey = 'used-before'

const Order = z
  .object({ orderId: z.string(), quantity: z.int(), customer: z.string().nullable() })
  .meta({ id: 'Order' })
const orderExample = { orderId: 'ord_1', quantity: 5, customer: null }

const createOrder = route({
  method: 'POST',
  path: '/api/v1/orders',
  operationId: 'createOrder',
  summary: 'Place an order',
  description: 'Debits the wallet and returns the order.',
  tag: 'Orders',
  access: 'buy',
  writes: true,
  idempotencyKey: 'required-for-resellers',
  customer: 'pays',
  body: z.strictObject({
    product_id: z.string().max(100),
    quantity: z.int().min(1).max(1000),
    fulfillment_meta: z
      .strictObject({ country: z.string().length(3), period_days: z.int().min(1).max(365) })
      .optional(),
    method: z.enum(['wallet', 'card']).optional(),
    expected_amount_cents: z.int().min(0).optional(),
  }),
  codes: {
    body: {
      product_id: { missing: 'missing_product' },
      quantity: 'invalid_quantity',
      fulfillment_meta: { unknown: 'invalid_targeting' },
      'fulfillment_meta.country': 'invalid_country',
      method: { value: 'unsupported_method' },
    },
  },
  examples: { body: { product_id: 'residential', quantity: 5 } },
  responses: {
    201: { description: 'The order.', body: Order, example: orderExample },
  },
  errors: ['unknown_product', 'price_changed', 'insufficient_balance'],
  knownKey: async (_caller, key) => key === knownIdempotencyKey,
  async handler({ body, customerRef }) {
    if (body.product_id === 'none') throw refuse('unknown_product', 'no product has the id none')
    if (body.expected_amount_cents === 1)
      throw refuse('price_changed', 'the price is 1250 now', {
        amountCents: 1250,
        unitPriceCents: 250,
        quantity: body.quantity,
      })
    return {
      status: 201,
      body: { orderId: 'ord_1', quantity: body.quantity, customer: customerRef },
      position: 42,
    }
  },
})

const listOrders = route({
  method: 'GET',
  path: '/api/v1/orders',
  operationId: 'listOrders',
  summary: 'List orders',
  description: 'Newest first.',
  tag: 'Orders',
  access: 'buy',
  writes: false,
  customer: 'limits',
  query: z.object({ ...pagingQuery, status: z.enum(['completed', 'failed']).optional() }),
  codes: { query: pagingCodes },
  responses: {
    200: {
      description: 'A page of orders.',
      body: z.object({ orders: z.array(Order), ...pageShape }).meta({ id: 'OrderList' }),
      example: { orders: [orderExample], total: 1, limit: 50, offset: 0 },
    },
  },
  errors: [],
  handler: async ({ query: { limit, offset } }) => ({
    status: 200,
    body: { orders: [], total: 0, limit, offset },
  }),
})

const getOrder = route({
  method: 'GET',
  path: '/api/v1/orders/{id}',
  operationId: 'getOrder',
  summary: 'Read an order',
  description: 'As it is now.',
  tag: 'Orders',
  access: 'buy',
  writes: false,
  customer: 'limits',
  params: z.object({ id: z.string() }),
  examples: { params: { id: 'ord_1' } },
  responses: { 200: { description: 'The order.', body: Order, example: orderExample } },
  errors: ['not_found'],
  async handler({ params, after }) {
    if (params.id !== 'ord_1') throw refuse('not_found', 'no such order')
    return { status: 200, body: { orderId: params.id, quantity: after ?? 0, customer: null } }
  },
})

const cancel = route({
  method: 'DELETE',
  path: '/api/v1/orders/{id}',
  operationId: 'cancelOrder',
  summary: 'Cancel an order',
  description: 'Says nothing.',
  tag: 'Orders',
  access: 'buy',
  writes: true,
  customer: accountOnly('this order is'),
  params: z.object({ id: z.string() }),
  examples: { params: { id: 'ord_1' } },
  responses: { 204: { description: 'It is canceled.' } },
  errors: [],
  handler: async () => ({ status: 204 }),
})

const me = route({
  method: 'GET',
  path: '/api/v1/me',
  operationId: 'getMe',
  summary: 'Who the key belongs to',
  description: 'Any valid key.',
  tag: 'Account',
  access: 'any-key',
  writes: false,
  customer: 'unaffected',
  responses: {
    200: {
      description: 'The account.',
      body: z.object({ email: z.string() }),
      example: { email: 'a@example.com' },
    },
  },
  errors: [],
  handler: async ({ caller: { email } }) => ({ status: 200, body: { email } }),
})

const scrape = route({
  method: 'POST',
  path: '/v1/scrape/{platform}',
  operationId: 'scrape',
  summary: 'Run a scraper',
  description: 'The request id is the idempotency key.',
  tag: 'Service',
  access: 'scrape',
  writes: true,
  customer: 'unaffected',
  requestIdIsKey: true,
  params: z.object({ platform: z.string() }),
  examples: { params: { platform: 'video' }, body: { handle: 'someone' } },
  body: z.strictObject({ handle: z.string() }),
  responses: {
    200: { description: 'The result.', body: z.object({ id: z.string() }), example: { id: 'x' } },
  },
  errors: ['unknown_scraper'],
  handler: async ({ requestId }) => ({ status: 200, body: { id: requestId } }),
})

const open = route({
  method: 'GET',
  path: '/api/proxy-list',
  operationId: 'getProxyList',
  summary: 'Free proxies',
  description: 'Needs no key.',
  tag: 'Service',
  access: 'public',
  writes: false,
  cors: true,
  responses: {
    200: {
      description: 'The list.',
      body: z.object({ proxies: z.array(z.string()) }),
      example: { proxies: [] },
      text: { mediaType: 'text/plain', example: '203.0.113.7:8080' },
    },
  },
  errors: [],
  handler: async ({ headers }) =>
    headers.accept === 'text/plain'
      ? { status: 200, text: '203.0.113.7:8080\n' }
      : { status: 200, body: { proxies: [] } },
})

/** Routes of every kind, small enough to know by heart. */
export const sampleRoutes: readonly Route[] = [createOrder, listOrders, getOrder, cancel, me, scrape, open]

export type SampleServer = {
  readonly client: HttpClient
  readonly baseUrl: string
  readonly port: number
  /** Node's server below it. */
  readonly node: Server
}

/** A server on a free port that ends with the test. Limits are off unless the test brings some. */
export const sampleServer = async (
  t: TestContext,
  over: Partial<HttpServerOptions> & { readonly logger?: Logger } = {},
): Promise<SampleServer> => {
  const routes = over.routes ?? sampleRoutes
  const app = createHttpServer({
    directory: sampleDirectory,
    customerIdOf: sampleCustomerId,
    logger: createLogger('silent'),
    metrics: createHttpMetrics(new Registry()),
    limits: null,
    monotonicMs: () => performance.now(),
    ...over,
    routes,
  })
  const baseUrl = await app.listen({ host: '127.0.0.1', port: 0 })
  t.after(() => shutDown(app, 1_000))
  return {
    baseUrl,
    port: Number(new URL(baseUrl).port),
    node: app.server,
    client: httpClient(baseUrl, openApiDocument(routes, { forTests: true })),
  }
}
