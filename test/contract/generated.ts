import { scraperOf, scrapers } from '../../src/domain/scrapers/scraper-table.ts'
import { exampleOf } from '../features/scrapers/provider-world.ts'
import fc from '../support/fast-check.ts'
import type { Document } from '../support/http.ts'
import {
  arbitraryOf,
  headerText,
  hostileBody,
  hostileValue,
  nearMissOf,
  type Schema,
  type SchemaContext,
  textOfValue,
} from './arbitraries.ts'
import { idsOf, type Live, poolsOf } from './live.ts'
import { closedUrl } from './requests.ts'

type Parameter = {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly schema: Schema
}
export type DeclaredOperation = {
  readonly operationId: string
  readonly method: string
  readonly path: string
  readonly parameters: readonly Parameter[]
  readonly body: Schema | null
}

/** A caller: its key, its resources, and whether it must name its orders. */
export type Caller = { readonly key: string; readonly live: Live; readonly reseller: boolean }

export type Generated = {
  readonly path: string
  readonly key: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly raw: string | undefined
}

type Parts = {
  readonly id: string
  readonly query: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

/** Every operation of the document, with its parameters resolved. */
export const operationsOf = (document: Document): readonly DeclaredOperation[] => {
  const shared = document.components.parameters as Readonly<Record<string, Parameter>>
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, declared]) => {
      const {
        operationId,
        parameters = [],
        requestBody,
      } = declared as never as {
        operationId: string
        parameters?: readonly (Parameter & { $ref?: string })[]
        requestBody?: { content: Readonly<Record<string, { schema: Schema }>> }
      }
      return {
        operationId,
        method: method.toUpperCase(),
        path,
        parameters: parameters.map(
          (parameter) => shared[parameter.$ref?.split('/').at(-1) ?? ''] ?? parameter,
        ),
        body: requestBody?.content['application/json']?.schema ?? null,
      }
    }),
  )
}

/** Seldom: most of what an account has is held for none of these. */
const namedCustomer = fc.oneof(
  { weight: 7, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: fc.constantFrom('ann', ' bob ', 'zoe', '').map((id) => ({ customer_id: id })) },
)

/** Parameters and body as the document's schemas have them, with live values mixed in. */
const declaredParts = (operation: DeclaredOperation, live: Live, context: SchemaContext) => {
  const inQuery = operation.parameters.filter((parameter) => parameter.in === 'query')
  const query = inQuery.filter(({ name }) => name !== 'customer_id')
  const fields = fc.record(
    Object.fromEntries(query.map(({ name, schema }) => [name, arbitraryOf(schema, context, 0, name)])),
    { requiredKeys: query.filter(({ required }) => required).map(({ name }) => name) },
  )
  return fc.record({
    id: fc.constantFrom(...idsOf(live, operation)),
    query:
      inQuery.length === query.length
        ? fields
        : fc.tuple(fields, namedCustomer).map(([given, named]) => ({ ...given, ...named })),
    headers: fc.constant({}),
    body: operation.body === null ? fc.constant(undefined) : arbitraryOf(operation.body, context),
  })
}

/** Dependencies between fields: products need countries and periods, rentals belong together. */
const fittingParts = (operation: DeclaredOperation, live: Live): fc.Arbitrary<Parts> | null => {
  const none = { id: '', query: {}, headers: {}, body: undefined }
  const dedicated = live.offers.filter((offer) => offer.fulfillment_meta !== null)
  const gateway = live.offers.filter((offer) => offer.fulfillment_meta === null)
  const offer = fc.oneof(fc.constantFrom(...gateway), fc.constantFrom(...dedicated))
  switch (operation.operationId) {
    case 'createOrder':
      return fc
        .tuple(offer, fc.boolean(), fc.boolean())
        .map(([{ amountCents, fulfillment_meta: meta, ...rest }, guarded, wallet]) => ({
          ...none,
          body: {
            ...rest,
            ...(meta && { fulfillment_meta: meta }),
            ...(guarded && { expected_amount_cents: amountCents }),
            ...(wallet && { method: 'wallet' }),
          },
        }))
    case 'lookUpIp':
      return fc.constantFrom('8.8.8.8', '2606:4700:4700::1111').map((ip) => ({ ...none, query: { ip } }))
    case 'createDeposit':
      return fc
        .tuple(
          fc.integer({ min: 1, max: 500_000 }),
          fc.constantFrom('card', 'crypto', 'alipay', null),
          fc.boolean(),
        )
        .map(([amount_cents, method, returns]) => ({
          ...none,
          body: {
            amount_cents,
            ...(method !== null && { method }),
            ...(returns && { return_url: 'https://shop.example.com/' }),
          },
        }))
    case 'setAutoTopup':
      return fc
        .tuple(fc.integer({ min: 1, max: 50_000 }), fc.integer({ min: 60_000, max: 500_000 }), fc.boolean())
        .map(([thresholdCents, cents, target]) => ({
          ...none,
          body: {
            thresholdCents,
            [target ? 'targetBalanceCents' : 'amountCents']: cents,
            monthlyMaxCents: 10_000_000,
          },
        }))
    case 'updateResellerTerms':
      return fc.constantFrom('1.00', '1.3', null).map((markup) => ({ ...none, body: { markup } }))
    case 'setResellerPrice':
      return fc
        .tuple(fc.constantFrom(...gateway), fc.constantFrom('5.00', null))
        .map(([{ product_id }, unit_price]) => ({ ...none, body: { product_id, unit_price } }))
    case 'moveCustomerCredit':
      return fc
        .tuple(fc.integer({ min: 1, max: 1_000 }), fc.uuid(), fc.constantFrom('ann', 'zoe'))
        .map(([amount_cents, reference, name]) => ({
          ...none,
          headers: { 'x-reseller-customer-id': name },
          body: { amount_cents, reference },
        }))
    case 'createWebhook':
      return fc
        .tuple(fc.constantFrom(closedUrl, 'https://127.0.0.1:9/'), fc.boolean())
        .map(([url, some]) => ({ ...none, body: { url, ...(some && { events: ['order.fulfilled'] }) } }))
    case 'updateWebhook':
      return fc
        .record({
          id: fc.constantFrom(...live.webhookIds),
          body: fc.record(
            {
              url: fc.constantFrom(closedUrl, 'https://127.0.0.1:9/'),
              events: fc.constantFrom(['ping'], ['order.fulfilled', 'plan.low_traffic'], ['order.refunded']),
              status: fc.constantFrom('active', 'disabled'),
            },
            { requiredKeys: [] },
          ),
        })
        .map((parts) => ({ ...none, ...parts }))
    case 'createSubscription': {
      const sold = ['residential-premium', 'residential-unlimited', 'isp-static', 'ipv4-datacenter']
      return fc
        .constantFrom(...live.offers.filter(({ product_id: id }) => sold.includes(id)))
        .map(({ amountCents, fulfillment_meta: meta, ...rest }) => ({
          ...none,
          body: {
            ...rest,
            interval: 'month',
            ...(meta && { fulfillment_meta: meta }),
            expected_amount_cents: amountCents,
          },
        }))
    }
    case 'topUpPlan':
      return fc
        .tuple(fc.constantFrom(...live.topUpPlanIds), fc.integer({ min: 1, max: 3 }))
        .map(([id, quantity]) => ({ ...none, id, body: { quantity } }))
    case 'generateLines':
      return fc
        .record({
          id: fc.constantFrom(...live.planIds),
          // Every product of lines takes a country.
          body: fc.record(
            {
              count: fc.integer({ min: 1, max: 20 }),
              stickyMinutes: fc.integer({ min: 0, max: 1_440 }),
              country: fc.constantFrom('us', 'USA', 'DE', 'jpn'),
              protocol: fc.constantFrom('http', 'https', 'socks5'),
              format: fc.constantFrom('host:port:user:pass', 'url', 'json'),
            },
            { requiredKeys: [] },
          ),
        })
        .map((parts) => ({ ...none, ...parts }))
    case 'getPlanUsage':
      return fc
        .record({
          id: fc.constantFrom(...live.planIds),
          query: fc.record(
            {
              bucket: fc.constantFrom('hour', 'day'),
              from: fc.constantFrom('2026-11-01', '2026-11-20T02:30:00Z'),
              to: fc.constantFrom('2026-11-21', '2026-11-21T02:30:00.5+02:00'),
            },
            { requiredKeys: ['from', 'to'] },
          ),
        })
        .map((parts) => ({ ...none, ...parts }))
    case 'listPlanRequests':
      return fc
        .record({
          id: fc.constantFrom(...live.planIds),
          query: fc.record(
            {
              host: fc.constantFrom('example.com', 'Example.org'),
              country: fc.constantFrom('us', 'DE'),
              reason: fc.constantFrom('none', 'target_timeout'),
              since: fc.constantFrom('2026-11-01', '2026-11-20T02:30:00Z'),
              limit: fc.integer({ min: 1, max: 500 }),
            },
            { requiredKeys: [] },
          ),
        })
        .map((parts) => ({ ...none, ...parts }))
    case 'getPlanTraffic':
      return fc
        .record({
          id: fc.constantFrom(...live.planIds),
          query: fc.record(
            {
              group_by: fc.constantFrom('host', 'country', 'hour', 'line'),
              since: fc.constantFrom('2026-11-01', '2026-11-20T02:30:00Z'),
              until: fc.constantFrom('2026-11-21', '2026-11-21T02:30:00.5+02:00'),
            },
            { requiredKeys: ['since', 'until'] },
          ),
        })
        .map((parts) => ({ ...none, ...parts }))
    case 'addToWhitelist':
      return fc
        .tuple(
          fc.constantFrom(...live.planIds),
          fc.constantFrom(...live.networks),
          fc.string({ maxLength: 20 }),
        )
        .map(([id, cidr, label]) => ({ ...none, id, body: { entries: [{ cidr, label }], move: true } }))
    case 'setTrafficBudget':
      return fc
        .record(
          {
            planId: fc.constantFrom(...live.planIds),
            period: fc.constantFrom('day', 'week', 'month'),
            timeZone: fc.constantFrom('UTC', 'america/new_york', 'Asia/Kolkata'),
            limitBytes: fc.integer({ min: 1_000_000, max: 1_000_000_000_000_000 }),
          },
          { requiredKeys: ['planId', 'period', 'limitBytes'] },
        )
        .map((body) => ({ ...none, body }))
    case 'extendProxies':
      return fc
        .tuple(fc.constantFrom(...live.rentals), fc.boolean())
        .map(([{ order_id, proxy_ids, period_days }, whole]) => ({
          ...none,
          body: whole ? { order_id, period_days } : { proxy_ids, period_days },
        }))
    case 'getStatement':
      return fc
        .record(
          {
            from: fc.constantFrom('2026-01-01', '2026-11-21T02:30:00Z'),
            to: fc.constantFrom('2126-01-01', '2126-11-21T02:30:00+02:00'),
            format: fc.constantFrom('json', 'csv'),
            limit: fc.integer({ min: 1, max: 20_000 }),
          },
          { requiredKeys: [] },
        )
        .map((query) => ({ ...none, query }))
    case 'quotePrice':
      return offer.map(({ product_id: id, quantity, fulfillment_meta: meta }) => ({
        ...none,
        id,
        query: { quantity, ...meta },
      }))
    case 'getPriceList':
    case 'getOptions':
      return fc.constantFrom(...dedicated).map(({ product_id: id, fulfillment_meta: meta }) => ({
        ...none,
        id,
        query: { country: meta?.country },
      }))
    case 'scrape':
      return fc.constantFrom(...idsOf(live, operation)).map((id) => {
        const [platform = '', name = ''] = id.split('|')
        return { ...none, id, body: exampleOf(scraperOf(platform, name)!) }
      })
    case 'scrapeBatch':
      return fc
        .tuple(fc.constantFrom(...scrapers.slice(0, 20)), fc.integer({ min: 1, max: 3 }))
        .map(([row, inputs]) => ({
          ...none,
          body: {
            platform: row.platform,
            operation: row.operation,
            inputs: Array.from({ length: inputs }, () => exampleOf(row)),
          },
        }))
    case 'checkFreeProxy':
      return fc.constantFrom(...freeProxies).map((proxy) => ({ ...none, query: { proxy } }))
    case 'checkFreeProxies':
      return fc
        .subarray([...freeProxies], { minLength: 1 })
        .map((proxies) => ({ ...none, body: { proxies } }))
    case 'getTrialBalance':
    case 'getAccountBalance':
    case 'getAccountStatement':
      return fc
        .tuple(
          fc.constantFrom(...idsOf(live, operation)),
          fc.constantFrom(
            {},
            { as_of: '20' },
            { from: '2026-11-01' },
            { from: '2026-01-01', to: '2026-11-21' },
          ),
          fc.constantFrom({}, { book: 'service' }, { limit: 2, offset: 1 }),
        )
        .map(([id, given, more]) => ({ ...none, id, query: { ...given, ...more } }))
    case 'listManualEntries':
      return fc
        .constantFrom({}, { from: '2026-11-01' }, { from: '2026-01-01', to: '2026-11-21' })
        .map((query) => ({ ...none, query }))
    case 'replaceProxy':
      return fc
        .tuple(
          fc.constantFrom(...live.rentals.flatMap(({ proxy_ids }) => proxy_ids)),
          fc.constantFrom('not_working', 'wrong_location', 'low_speed'),
        )
        .map(([id, reason]) => ({ ...none, id, body: { reason } }))
    default:
      return null
  }
}

/** Addresses of the sandbox without a listener. */
const freeProxies = ['127.80.255.1:9', '127.80.255.2:9'] as const

/** Clients drop `.` and `..` from paths before they send them. */
const isDots = (text: string): boolean => /^\.{1,2}$/.test(text)

const segment = fc.oneof(
  fc.constantFrom('%00', '%ff', '%2f', '', '%', 'x'.repeat(3_000), '__proto__', 'ord_%F0%9F%98%80'),
  fc
    .string({ maxLength: 12 })
    .filter((text) => !isDots(text))
    .map((text) => encodeURIComponent(text.toWellFormed())),
)
const rawQuery = fc.oneof(
  fc.constantFrom(
    '?%',
    '?limit=1&limit=2',
    '?limit[]=1',
    '?__proto__=1&constructor=2',
    '?status=%00',
    '?country=%ff&quantity=%00',
    `?product_id=${'x'.repeat(3_000)}`,
    '?quantity=1e2&limit=1e9&offset=99999999999999999999',
  ),
  fc.webQueryParameters().map((query) => `?${query}`),
)
const contentTypes = fc.constantFrom(
  'application/json',
  'application/json; charset=utf-8',
  'application/json; charset=latin1',
  'text/plain',
  'multipart/form-data',
  ';;',
)

/** Ids of one path are joined in one text with ` ` between them. */
const pathWith = ({ path }: DeclaredOperation, id: string): string => {
  const ids = id.split('|')
  return path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(ids.shift() ?? ''))
}

const isPost = ({ method }: DeclaredOperation): boolean => method === 'POST'

const queryText = (query: Readonly<Record<string, unknown>>): string => {
  const entries = Object.entries(query).map(([name, value]) => [name, textOfValue(value).toWellFormed()])
  return entries.length === 0 ? '' : `?${new URLSearchParams(entries as [string, string][])}`
}

const json = { 'content-type': 'application/json' }

/** A request of these parts, sent by the caller, as a client library would send it. */
const wellFormed = (
  operation: DeclaredOperation,
  caller: Caller,
  parts: fc.Arbitrary<Parts>,
): fc.Arbitrary<Generated> => {
  const named = isPost(operation) && operation.parameters.some(({ name }) => name === 'Idempotency-Key')
  const name = fc.oneof(
    { weight: 9, arbitrary: fc.uuid() },
    { weight: 1, arbitrary: fc.constantFrom('a', 'b') },
    ...(caller.reseller ? [] : [{ weight: 3, arbitrary: fc.constant(null) }]),
  )
  return fc.tuple(parts, name).map(([{ id, query, headers, body }, key]) => ({
    path: `${pathWith(operation, id)}${queryText(query)}`,
    key: caller.key,
    headers: {
      ...headers,
      ...(body === undefined ? {} : json),
      ...(named && key !== null ? { 'idempotency-key': key } : {}),
    },
    raw: body === undefined ? undefined : JSON.stringify(body),
  }))
}

/** A request with one mistake. */
const spoilt = (
  operation: DeclaredOperation,
  good: fc.Arbitrary<Generated>,
  otherKeys: readonly (string | undefined)[],
): fc.Arbitrary<Generated> => {
  const sends = operation.method !== 'GET'
  return fc.oneof(
    fc.tuple(good, segment).map(([request, id]) => ({
      ...request,
      path: operation.path.includes('{id}') ? operation.path.replaceAll(/\{\w+\}/g, () => id) : request.path,
    })),
    fc.tuple(good, rawQuery).map(([request, query]) => ({
      ...request,
      path: `${request.path.split('?', 1)[0]}${query}`,
    })),
    fc.tuple(good, fc.constantFrom(...otherKeys)).map(([request, key]) => ({ ...request, key })),
    fc
      .tuple(
        good,
        fc.constantFrom(
          'idempotency-key',
          'x-reseller-customer-id',
          'x-farebox-position',
          'x-request-id',
          'authorization',
        ),
        headerText,
      )
      .map(([request, name, text]) => ({ ...request, headers: { ...request.headers, [name]: text } })),
    ...(sends
      ? [
          fc.tuple(good, hostileBody).map(([request, raw]) => ({
            ...request,
            headers: { ...request.headers, ...json },
            raw,
          })),
          fc.tuple(good, contentTypes).map(([request, type]) => ({
            ...request,
            headers: { ...request.headers, 'content-type': type },
          })),
        ]
      : []),
  )
}

/** Operations for resellers are called with reseller keys; other keys are among the wrong ones. */
const callersOf = ({ path }: DeclaredOperation, callers: readonly Caller[]): readonly Caller[] =>
  path.startsWith('/api/v1/reseller/') ? callers.filter(({ reseller }) => reseller) : callers

/**
 * Requests of one operation: ones that fit together, ones whose fields each fit the document's schemas, near misses of
 * both, and hostile ones.
 */
export const requestsOf = (
  operation: DeclaredOperation,
  callers: readonly Caller[],
  document: Document,
  otherKeys: readonly (string | undefined)[],
): fc.Arbitrary<Generated> =>
  fc.constantFrom(...callersOf(operation, callers)).chain((caller) => {
    const { live } = caller
    const context: SchemaContext = {
      schemas: document.components.schemas as Readonly<Record<string, Schema>>,
      pools: poolsOf(live),
    }
    const declared = declaredParts(operation, live, context)
    const fitting = fittingParts(operation, live) ?? declared
    const near = fc.oneof(fitting, declared).chain((parts) =>
      fc.record({
        id: fc.constant(parts.id),
        headers: fc.constant(parts.headers),
        query: nearMissOf(fc.constant(parts.query)) as fc.Arbitrary<Parts['query']>,
        body: operation.body === null ? fc.constant(undefined) : nearMissOf(fc.constant(parts.body)),
      }),
    )
    const strange = fc.record({
      id: fc.constantFrom(...idsOf(live, operation)),
      headers: fc.constant({}),
      query: fc.constant({}),
      body: operation.body === null ? fc.constant(undefined) : hostileValue,
    })
    const send = (parts: fc.Arbitrary<Parts>) => wellFormed(operation, caller, parts)
    return fc.oneof(
      { weight: 9, arbitrary: send(fitting) },
      { weight: 4, arbitrary: send(declared) },
      { weight: 4, arbitrary: send(near) },
      { weight: 1, arbitrary: send(strange) },
      { weight: 4, arbitrary: spoilt(operation, send(fitting), otherKeys) },
    )
  })
