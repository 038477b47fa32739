import type pg from 'pg'
import { z } from 'zod'
import { listProxies, proxyStatuses } from '../../../projections/proxies.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { idempotentAnswer } from '../../platform/http/answer.ts'
import { either, given, withRule } from '../../platform/http/field-rules.ts'
import {
  countryQuery,
  inRange,
  instantQuery,
  pageShape,
  pagingCodes,
  pagingQuery,
  wordQuery,
} from '../../platform/http/query.ts'
import { idempotentResponses, type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import { maxLabelLength, setLabel } from '../../platform/vault/labels.ts'
import {
  chargeErrors,
  guardField,
  isOrderKey,
  OrderRecord,
  orderExample,
  orderRecord,
} from '../orders/index.ts'
import { maxExtended, type RentalExtension } from './extend-rentals.ts'
import type { VerifyRentals } from './own-rentals.ts'
import { createFindProxy, createProxyRecords } from './own-rentals.ts'
import { type GatewayAddress, ProxyRecord, proxyExample, proxyLine } from './proxy-record.ts'

/** The query of a page, by parameter. */
type RequestedFields = Readonly<Record<string, string | undefined>>

/** The headers of a page of lines, for the interface description. A line has no room for them. */
const pageHeaderTexts = {
  'X-Farebox-Total': 'For `format=txt` only: the number of matching addresses on all pages',
  Link: 'txt only, when more lines follow: `<…>; rel="next"`, the path and query of the next page (RFC 8288)',
} as const

/**
 * The headers of a page of lines. The link repeats the query. It is relative, because the public host name is unknown
 * to the server.
 */
export const pageHeaders = (
  path: string,
  queryFields: RequestedFields,
  page: { readonly limit: number; readonly offset: number; readonly total: number },
): Readonly<Record<string, string>> => {
  const { limit, offset, total } = page
  const totalHeader = { 'x-farebox-total': String(total) }
  if (offset + limit >= total) return totalHeader
  const next = new URLSearchParams()
  for (const [name, value] of Object.entries(queryFields)) if (value !== undefined) next.set(name, value)
  next.set('limit', String(limit))
  next.set('offset', String(offset + limit))
  return { ...totalHeader, link: `<${path}?${next}>; rel="next"` }
}

const params = z.object({ id: z.string() })

const listPath = '/api/v1/proxies'
const extendPath = '/api/v1/proxies/extend'

const ids = z.array(z.string()).min(1).max(maxExtended)

const extensionFields = z.strictObject({
  proxy_ids: ids.optional().meta({
    description:
      'The ids of the rentals to extend. The other rentals end at their time. Send either this field or `order_id`.',
  }),
  order_id: z.string().optional().meta({
    description: 'The id of an order, to extend all of its rentals. Send either this field or `proxy_ids`.',
  }),
  period_days: z.int().min(1),
  expected_amount_cents: guardField,
})
const Extension = withRule(
  extensionFields,
  either(given('proxy_ids', 'array'), given('order_id', 'string')),
  'must have either proxy_ids or order_id: the rentals to keep',
)

/** Rented addresses (research: proxies, 2.4): reading, labelling and extending. */
export const proxyRoutes = (dependencies: {
  readonly log: Pick<EventLog, 'lastOf'>
  readonly extending: Pick<RentalExtension, 'extend'>
  readonly catalog: { current(): Catalog }
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly verifyRentals: VerifyRentals
  readonly pool: pg.Pool
  readonly credentials: Credentials
  readonly gateway: GatewayAddress
  readonly publicUrl: () => string
  readonly clock: Clock
}): readonly Route[] => {
  const { log, extending, catalog, reads, db, pool, clock } = dependencies
  const records = createProxyRecords(dependencies)
  const proxyOf = createFindProxy(dependencies)

  return [
    route({
      method: 'GET',
      path: listPath,
      operationId: 'listProxies',
      summary: 'List rented addresses',
      description:
        'The dedicated addresses of the account with their credentials, newest first. The JSON answer includes ended rentals, each with its `status`. `format=txt` is for tools that read a list: it has only working addresses, including the expiring ones, unless `status` selects others. Both formats have pages. In the text format, `X-Farebox-Total` is the number of matching addresses, and `Link` has the URL of the next page, if any.',
      tag: 'Proxies',
      access: 'buy',
      writes: false,
      customer: 'limits',
      query: z.object({
        ...pagingQuery,
        family: wordQuery(['isp', 'mobile', 'ipv4', 'ipv6'], 'Only addresses of this family.').optional(),
        product_id: z.string().optional().meta({ description: 'Only addresses of this product id.' }),
        order_id: z.string().optional().meta({ description: 'Only addresses of this order.' }),
        country: countryQuery('Only addresses in this country, alpha-3.').optional(),
        status: wordQuery(proxyStatuses, 'Only addresses in this status.', 'ProxyStatus').optional(),
        expires_before: instantQuery('Only addresses whose rental ends before this instant.').optional(),
        format: wordQuery(
          ['json', 'txt'],
          '`txt`: one `host:port:username:password` a line, without those that have expired.',
        ).optional(),
      }),
      codes: { query: { ...pagingCodes, country: 'invalid_country' } },
      responses: {
        200: {
          description: 'A page of addresses.',
          body: z.object({ proxies: z.array(ProxyRecord), ...pageShape }).meta({ id: 'ProxyList' }),
          example: { proxies: [proxyExample], total: 1, limit: 50, offset: 0 },
          text: { mediaType: 'text/plain', example: proxyLine(proxyExample) },
          headers: pageHeaderTexts,
        },
      },
      errors: ['invalid_country'],
      handler: async ({ caller, scope, customerRef, query, after }) => {
        const { limit, offset, product_id: product } = query
        const before = query.expires_before === undefined ? undefined : inRange(query.expires_before)
        const filter = {
          family: query.family,
          productId: product === undefined ? undefined : (catalog.current().resolve(product)?.id ?? product),
          orderId: query.order_id,
          country: query.country?.toUpperCase(),
          status: query.status,
          expiresBeforeMs: before,
        }
        await reads.settled(scope.accountId, after ?? 0)
        if (query.format === 'txt') {
          // Only running addresses, because a line has no status.
          const runningFilter = { ...filter, status: query.status ?? 'running' } as const
          const page = await listProxies(db, scope, runningFilter, { limit, offset }, clock())
          const proxies = await records(caller.accountId, page.proxies)
          const { limit: _, offset: _o, expires_before: _b, ...queryFields } = query
          const nextQuery = {
            ...queryFields,
            customer_id: customerRef ?? undefined,
            expires_before: before === undefined ? undefined : isoTime(before),
          }
          return {
            status: 200,
            text: proxies.map((proxy) => `${proxyLine(proxy)}\n`).join(''),
            headers: pageHeaders(listPath, nextQuery, { limit, offset, total: page.total }),
          }
        }
        const page = await listProxies(db, scope, filter, { limit, offset }, clock())
        const proxies = await records(caller.accountId, page.proxies)
        return { status: 200, body: { proxies, total: page.total, limit, offset } }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/proxies/{id}',
      operationId: 'getProxy',
      summary: 'Read a rented address',
      description:
        'One dedicated address with its credentials, active or ended, with the same fields as in the list.',
      tag: 'Proxies',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params,
      examples: { params: { id: proxyExample.proxyId } },
      responses: { 200: { description: 'The address.', body: ProxyRecord, example: proxyExample } },
      errors: ['not_found'],
      handler: async ({ caller, scope, params: { id }, after }) => {
        const [record] = await records(caller.accountId, [await proxyOf(scope, id, after)])
        return { status: 200, body: record! }
      },
    }),

    route({
      method: 'PATCH',
      path: '/api/v1/proxies/{id}',
      operationId: 'updateProxy',
      summary: 'Label a rented address',
      description: "Sets the account's own label of the address. An empty text removes the label.",
      tag: 'Proxies',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      body: z.strictObject({ label: z.string().max(maxLabelLength) }),
      examples: { params: { id: proxyExample.proxyId }, body: { label: 'acme' } },
      responses: { 200: { description: 'The address.', body: ProxyRecord, example: proxyExample } },
      errors: ['not_found'],
      handler: async ({ caller, scope, params: { id }, body: { label }, after }) => {
        const proxy = await proxyOf(scope, id, after)
        await setLabel(pool, caller.accountId, proxy.proxyId as ProxyId, label)
        const [record] = await records(caller.accountId, [{ ...proxy, label }])
        return { status: 200, body: record! }
      },
    }),

    route({
      method: 'POST',
      path: extendPath,
      operationId: 'extendProxies',
      summary: 'Extend rented addresses',
      description:
        "Extends the named rentals by one period, each from its own end. Other rentals end at their time. The wallet pays, and the answer is the order of the extension. To extend the rentals of a reseller's customer, send `X-Reseller-Customer-Id`: the customer's credit pays the price and your wallet pays your cost. The end of a rental can be at most ten years from now.",
      tag: 'Proxies',
      access: 'buy',
      writes: true,
      idempotencyKey: 'required-for-resellers',
      customer: 'pays',
      body: Extension,
      codes: { body: { period_days: 'invalid_period' } },
      examples: { body: { proxy_ids: [proxyExample.proxyId], period_days: 30 } },
      responses: idempotentResponses(
        OrderRecord,
        { ...orderExample, kind: 'extension' },
        {
          created: 'The order of the extension.',
          existing: 'The earlier order with this Idempotency-Key, in its current state.',
        },
      ),
      errors: [
        'not_found',
        'invalid_quantity',
        'invalid_country',
        'invalid_period',
        'invalid_targeting',
        'out_of_stock',
        ...chargeErrors,
        'customer_credit_insufficient',
      ],
      knownKey: (caller, key) => isOrderKey(log, caller.accountId, key),
      handler: async (request) => {
        const { caller, body, customerRef, after } = request
        const { proxy_ids: proxyIds, order_id: orderId } = body
        const selection = proxyIds === undefined ? { orderId: orderId ?? '' } : { proxyIds }
        const placed = await extending.extend(
          { ...request, path: extendPath },
          selection,
          body.period_days,
          after,
        )
        return idempotentAnswer(
          placed,
          orderRecord({ ...placed.order, customer: customerRef }, caller.reseller),
        )
      },
    }),
  ]
}
