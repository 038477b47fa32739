import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod'
import type { KeyId } from '../../../src/kernel/ids.ts'
import { openApiDocument } from '../../../src/platform/api-docs/openapi-document.ts'
import type { Caller } from '../../../src/platform/http/auth.ts'
import { countryQuery, instantQuery } from '../../../src/platform/http/query.ts'
import { createRateLimiter, createRouteLimit, type Taken } from '../../../src/platform/http/rate-limiter.ts'
import { route } from '../../../src/platform/http/route.ts'
import type { CallOptions } from '../../support/http.ts'
import { knownIdempotencyKey, sampleDirectory, sampleRoutes, sampleServer } from './sample.ts'

const good = { product_id: 'residential', quantity: 5 }
const order = (json: unknown, over: CallOptions = {}): [string, string, CallOptions] => [
  'POST',
  '/api/v1/orders',
  { key: 'buyer-key', json, ...over },
]

/** A limiter whose every count has one result. */
const counting = (taken: Taken) => ({ policy: 'q=10;w=5', count: () => taken, take: () => taken.waitS })

describe('The checks before a handler', () => {
  /** Each step of docs/reference/api.md, "Order of checks", fails while every later step would fail as well. */
  test('run in the documented order', async (t) => {
    const everythingWrong = { country: 'USA', method: 'shells', quantity: 0 }
    const badKey = { 'idempotency-key': 'ü' }
    const badCustomer = { 'x-reseller-customer-id': 'x'.repeat(129) }
    const steps: readonly [code: string, call: [string, string, CallOptions]][] = [
      [
        'unauthorized',
        order(undefined, { key: 'unknown', raw: '{', headers: { 'content-type': 'text/plain' } }),
      ],
      [
        'missing_scope',
        order(undefined, { key: 'scraper-key', raw: '{', headers: { 'content-type': 'text/plain' } }),
      ],
      [
        'account_blocked',
        order(undefined, { key: 'blocked-key', raw: '{', headers: { 'content-type': 'text/plain' } }),
      ],
      ['unsupported_media_type', order(undefined, { raw: '{', headers: { 'content-type': 'text/plain' } })],
      [
        'payload_too_large',
        order(undefined, { raw: `{${' '.repeat(300_000)}`, headers: { 'content-type': 'application/json' } }),
      ],
      [
        'invalid_body',
        order(undefined, { raw: '{', headers: { 'content-type': 'application/json', ...badKey } }),
      ],
      ['unknown_field', order(everythingWrong, { headers: badKey })],
      [
        'invalid_body',
        order({ ...everythingWrong, country: undefined, expected_amount_cents: 'x' }, { headers: badKey }),
      ],
      ['unsupported_method', order({ ...everythingWrong, country: undefined }, { headers: badKey })],
      ['invalid_idempotency_key', order({ quantity: 0 }, { headers: { ...badKey, ...badCustomer } })],
      ['invalid_customer_id', order({ quantity: 0 }, { headers: badCustomer })],
      ['reseller_forbidden', order({ quantity: 0 }, { headers: { 'x-reseller-customer-id': 'c1' } })],
      ['idempotency_key_required', order({ quantity: 0 }, { key: 'reseller-key' })],
      [
        'idempotency_conflict',
        order({ quantity: 0 }, { headers: { 'idempotency-key': knownIdempotencyKey } }),
      ],
      ['missing_product', order({ quantity: 0 }, { headers: { 'idempotency-key': 'fresh' } })],
      [
        'invalid_quantity',
        order({ ...good, quantity: 0, fulfillment_meta: { country: 'USA', period_days: 30, x: 1 } }),
      ],
      ['invalid_targeting', order({ ...good, fulfillment_meta: { country: 'USA', period_days: 30, x: 1 } })],
    ]
    const { client } = await sampleServer(t)
    for (const [code, call] of steps) {
      const { body } = await client.call(...call)
      assert.equal(body.code, code, JSON.stringify(call))
    }
  })

  test('pass a good request to the handler, with its input', async (t) => {
    const { client } = await sampleServer(t)
    const { status, body, headers } = await client.call(
      ...order(good, {
        key: 'reseller-key',
        headers: { 'idempotency-key': 'k', 'x-reseller-customer-id': 'customer 7' },
      }),
    )
    assert.equal(status, 201)
    assert.deepEqual(body, { orderId: 'ord_1', quantity: 5, customer: 'customer 7' })
    assert.equal(headers.get('x-farebox-position'), 'pos_0_42')
  })

  test('limit an address before its key, and a key before its scope', async (t) => {
    const never = counting({ waitS: 2.2, remaining: 0, fullAfterS: 8.1 })
    const free = counting({ waitS: 0, remaining: 9, fullAfterS: 0.1 })
    const address = await sampleServer(t, { limits: { perAddress: never, perKey: free } })
    const refused = await address.client.call(...order(good, { key: 'unknown' }))
    assert.equal(refused.body.code, 'rate_limited')
    assert.equal(refused.headers.get('retry-after'), '3')
    const key = await sampleServer(t, { limits: { perAddress: free, perKey: never } })
    assert.equal((await key.client.call(...order(good, { key: 'unknown' }))).body.code, 'unauthorized')
    const limited = await key.client.call(...order(good, { key: 'scraper-key' }))
    assert.equal(limited.body.code, 'rate_limited')
    assert.equal(limited.headers.get('ratelimit'), '"key";r=0;t=9')
    assert.equal(limited.headers.get('ratelimit-policy'), '"key";q=10;w=5')
  })

  test('name the limits of a key and of an operation that counted them, with what remains', async (t) => {
    const perKey = createRateLimiter({ burst: 10, perSecond: 2 }, () => 0)
    const limit = createRouteLimit('account', { burst: 3, perSecond: 1 }, () => 0)
    const routes = sampleRoutes.map((each) =>
      each.operationId === 'createOrder' ? { ...each, limit } : each,
    )
    const { client } = await sampleServer(t, { routes, limits: { perAddress: perKey, perKey } })
    const { status, headers } = await client.call(...order(good))
    assert.equal(status, 201)
    assert.equal(headers.get('ratelimit-policy'), '"key";q=10;w=5, "createOrder";q=3;w=3')
    assert.equal(headers.get('ratelimit'), '"key";r=9;t=1, "createOrder";r=2;t=1')
    assert.equal((await client.get('/healthz')).headers.get('ratelimit'), null)
  })

  test('count each key separately', async (t) => {
    const limiter = () => createRateLimiter({ burst: 2, perSecond: 1 }, () => 1_000)
    const free = { take: () => 0 }
    const { client } = await sampleServer(t, { limits: { perAddress: free, perKey: limiter() } })
    const statuses = []
    for (const key of ['buyer-key', 'buyer-key', 'buyer-key', 'reseller-key'])
      statuses.push((await client.get('/api/v1/me', { key })).status)
    assert.deepEqual(statuses, [200, 200, 429, 200])
  })

  test('count two keys of one account separately', async (t) => {
    const limiter = createRateLimiter({ burst: 2, perSecond: 1 }, () => 1_000)
    const free = { take: () => 0 }
    const byKey = async (key: string): Promise<Caller | null> => {
      const known = await sampleDirectory.byKey('buyer-key', '127.0.0.1')
      return known && { ...known, keyId: key as KeyId }
    }
    const { client } = await sampleServer(t, {
      directory: { byKey },
      limits: { perAddress: free, perKey: limiter },
    })
    const statuses = []
    for (const key of ['key_one', 'key_one', 'key_one', 'key_two', 'key_two', 'key_two'])
      statuses.push((await client.get('/api/v1/me', { key })).status)
    assert.deepEqual(statuses, [200, 200, 429, 200, 200, 429])
  })

  test('count each finance token separately, once it is authenticated', async (t) => {
    const books = route({
      method: 'GET',
      path: '/finance/v1/books',
      operationId: 'books',
      summary: 'x',
      description: 'x',
      tag: 'Finance',
      access: 'finance',
      writes: false,
      responses: { 200: { description: 'x', body: z.object({}), example: {} } },
      errors: [],
      handler: async () => ({ status: 200, body: {} }),
    })
    const tokens = ['one', 'two']
    const { client } = await sampleServer(t, {
      routes: [books],
      financeDirectory: {
        byToken: async (token) => (tokens.includes(token) ? { tokenId: `fin_${token}` } : null),
      },
      limits: {
        perAddress: { take: () => 0 },
        perKey: createRateLimiter({ burst: 2, perSecond: 0.5 }, () => 1_000),
      },
    })
    const read = (key: string) => client.get('/finance/v1/books', { key })
    for (let again = 0; again < 3; again += 1) assert.equal((await read('unknown')).status, 401)
    const statuses = []
    for (const key of ['one', 'one', 'one', 'two']) statuses.push((await read(key)).status)
    assert.deepEqual(statuses, [200, 200, 429, 200])
    const refused = await read('one')
    assert.equal(refused.body.code, 'rate_limited')
    assert.match(refused.body.error, /this token/)
    assert.equal(refused.headers.get('retry-after'), '2')
  })

  test('name the field and the accepted ones when a field is unknown', async (t) => {
    const { client } = await sampleServer(t)
    const { body } = await client.call(...order({ ...good, country: 'USA' }))
    assert.equal(
      body.error,
      'unknown field "country"; accepted fields: product_id, quantity, fulfillment_meta, method, expected_amount_cents',
    )
  })

  test('show the expected form when a field has the wrong type', async (t) => {
    const { client } = await sampleServer(t)
    const { body } = await client.call(...order({ ...good, expected_amount_cents: '12' }))
    assert.equal(body.code, 'invalid_body')
    assert.match(
      body.error,
      /^expected_amount_cents must be a whole number of at least 0; expected shape: \{"product_id": string, /,
    )
  })

  test('show the expected form when a body cannot be read, for any reason', async (t) => {
    const { client } = await sampleServer(t)
    const refusal = async (raw: string | Uint8Array<ArrayBuffer>) => {
      const headers = { 'content-type': 'application/json' }
      const { body } = await client.call('POST', '/api/v1/orders', { key: 'buyer-key', raw, headers })
      assert.equal(body.code, 'invalid_body')
      return body.error as string
    }
    assert.equal(
      await refusal('{"quantity":'),
      'the body is not valid JSON; expected shape: {"product_id": string, "quantity": integer, "fulfillment_meta"?: {"country": string, "period_days": integer}, "method"?: "wallet" | "card", "expected_amount_cents"?: integer}',
    )
    for (const raw of [
      Uint8Array.of(0x22, 0xff, 0x22),
      '{"quantity":1,"quantity":2}',
      '{"product_id":"\\u0000"}',
      '{"__proto__":1}',
      `${'['.repeat(40)}${']'.repeat(40)}`,
    ])
      assert.match(await refusal(raw), /; expected shape: \{"product_id": string, /)
    const headers = { 'content-type': 'application/json' }
    const none = await client.call('DELETE', '/api/v1/orders/ord_1', { key: 'buyer-key', raw: '{', headers })
    assert.equal(none.body.error, 'the body is not valid JSON; expected shape: {}')
  })

  test('say "entry" and "character" in the singular for one', async (t) => {
    const named = route({
      method: 'POST',
      path: '/named',
      operationId: 'named',
      summary: 'x',
      description: 'x',
      tag: 'Service',
      access: 'public',
      writes: false,
      body: z.strictObject({
        ids: z.array(z.string()).min(1),
        few: z.array(z.string()).min(1).max(3).optional(),
        pair: z.array(z.string()).min(2).max(2).optional(),
        name: z.string().max(1).optional(),
      }),
      responses: { 200: { description: 'x', body: z.object({}), example: {} } },
      errors: [],
      handler: async () => ({ status: 200, body: {} }),
    })
    const { client } = await sampleServer(t, { routes: [named] })
    const error = async (json: object) => {
      const { body } = await client.post('/named', { ids: ['a'], ...json })
      return (body.error as string).split(';')[0]
    }
    assert.equal(await error({ ids: [] }), 'ids must be a list of at least 1 entry')
    assert.equal(await error({ few: [] }), 'few must be a list of 1 to 3 entries')
    assert.equal(await error({ pair: [] }), 'pair must be a list of 2 entries')
    assert.equal(await error({ name: 'ab' }), 'name must be a text of at most 1 character')
  })

  test('distinguish null from a missing field', async (t) => {
    const { client } = await sampleServer(t)
    const error = async (json: unknown) => (await client.call(...order(json))).body.error
    assert.equal(
      await error({ ...good, product_id: null }),
      'product_id must be a text of at most 100 characters, got null',
    )
    assert.equal(
      await error({ quantity: 5 }),
      'product_id is missing: it must be a text of at most 100 characters',
    )
  })

  test('read null as omitted where a field is optional, and nowhere else', async (t) => {
    const named = route({
      method: 'POST',
      path: '/unset',
      operationId: 'unset',
      summary: 'x',
      description: 'x',
      tag: 'Service',
      access: 'public',
      writes: true,
      body: z.strictObject({
        name: z.string().optional(),
        count: z.int().default(1),
        price: z.int().nullable().optional(),
        where: z.strictObject({ city: z.string().optional(), country: z.string() }).optional(),
        items: z.array(z.strictObject({ note: z.string().optional() })).optional(),
      }),
      responses: { 200: { description: 'x', body: z.object({ got: z.unknown() }), example: { got: {} } } },
      errors: [],
      handler: async ({ body }) => ({ status: 200, body: { got: body } }),
    })
    const { client } = await sampleServer(t, { routes: [named] })
    const got = async (json: object) => (await client.post('/unset', json)).body.got
    assert.deepEqual(await got({ name: null, count: null, where: null, items: null }), { count: 1 })
    assert.deepEqual(await got({ price: null }), { count: 1, price: null })
    assert.deepEqual(await got({ where: { city: null, country: 'USA' }, items: [{ note: null }] }), {
      count: 1,
      where: { country: 'USA' },
      items: [{}],
    })
    const code = async (json: object) => (await client.post('/unset', json)).body.code
    assert.equal(await code({ where: { country: null } }), 'invalid_body')
    for (const strange of ['other', 'constructor', 'toString'])
      assert.equal(await code({ [strange]: null }), 'unknown_field')
    assert.equal(await code({ where: { country: 'USA', other: null } }), 'unknown_field')
  })

  test('describe the form of a text in words or by its pattern', async (t) => {
    const forms = route({
      method: 'GET',
      path: '/forms',
      operationId: 'forms',
      summary: 'x',
      description: 'x',
      tag: 'Service',
      access: 'public',
      writes: false,
      query: z.object({
        country: countryQuery('Where.').optional(),
        since: instantQuery('Since when.').optional(),
        code: z
          .string()
          .regex(/^[a-z]{2}$/)
          .optional(),
      }),
      responses: { 200: { description: 'x', body: z.object({}), example: {} } },
      errors: [],
      handler: async () => ({ status: 200, body: {} }),
    })
    const { client } = await sampleServer(t, { routes: [forms] })
    const error = async (query: string) => (await client.get(`/forms?${query}`)).body.error
    for (const none of ['us', 'US', 'zzz'])
      assert.equal(await error(`country=${none}`), 'country must be an alpha-3 country code such as USA')
    for (const taken of ['USA', 'deu']) assert.equal(await error(`country=${taken}`), undefined)
    const moments =
      'a date such as 2026-11-21 (its midnight in UTC) or a time with its offset such as 2026-11-21T02:30:00Z'
    assert.equal(await error('since=x'), `since must be ${moments}`)
    for (const time of ['', 'T02:30:00Z', 'T02:30:00%2B02:00', 'T02:30Z', 'T02:30-05:00'])
      assert.equal(await error(`since=2026-11-21${time}`), undefined)
    for (const lost of ['2026-11-21T02:30:00+02:00', '2026-11-21T02:30 02:00'])
      assert.equal(
        await error(`since=${lost}`),
        `since must be ${moments}; write the + of its offset as %2B, because a + in a query is a space`,
      )
    assert.equal(await error('code=A'), 'code must be a text that matches ^[a-z]{2}$')
    const { parameters } = openApiDocument([forms]).paths['/forms']!.get as never as { parameters: object[] }
    assert.deepEqual(parameters[1], {
      name: 'since',
      in: 'query',
      required: false,
      description: `Since when. It is ${moments}.`,
      schema: { type: 'string', pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}(T.+)?$' },
    })
    assert.doesNotMatch(JSON.stringify(openApiDocument([forms])), /"words"/)
  })

  test('refuse every quantity that is not a whole number within the bounds', async (t) => {
    const { client } = await sampleServer(t)
    const texts = [
      '0',
      '-1',
      '1.5',
      '5.0000000000000001',
      '1e999',
      '-1e999',
      '1e21',
      '"5"',
      'null',
      '[]',
      '{}',
      'true',
      '1e-400',
    ]
    for (const text of texts) {
      const raw = `{"product_id":"residential","quantity":${text}}`
      const headers = { 'content-type': 'application/json' }
      const { body } = await client.call('POST', '/api/v1/orders', { key: 'buyer-key', raw, headers })
      assert.equal(body.code, 'invalid_quantity', text)
    }
  })

  test('accept an empty body or an empty object where an operation has no body, and nothing else', async (t) => {
    const { client } = await sampleServer(t)
    const path = '/api/v1/orders/ord_1'
    assert.equal((await client.call('DELETE', path, { key: 'buyer-key' })).status, 204)
    assert.equal((await client.call('DELETE', path, { key: 'buyer-key', json: {} })).status, 204)
    assert.equal(
      (await client.call('DELETE', path, { key: 'buyer-key', json: { a: 1 } })).body.code,
      'unknown_field',
    )
  })

  test('refuse NUL in paths and queries, which Postgres does not accept', async (t) => {
    const { client } = await sampleServer(t)
    assert.equal((await client.get('/api/v1/orders/a%00b', { key: 'buyer-key' })).body.code, 'not_found')
    const bad = await client.get('/api/v1/orders?status=a%00', { key: 'buyer-key' })
    assert.equal(bad.body.code, 'invalid_parameter')
  })

  test('read the position that a client sends back, and refuse an invalid one', async (t) => {
    const { client } = await sampleServer(t)
    const read = (position: string) =>
      client.get('/api/v1/orders/ord_1', { key: 'buyer-key', headers: { 'x-farebox-position': position } })
    assert.equal((await read('pos_0_42')).body.quantity, 42)
    assert.equal((await read('42')).body.quantity, 42, 'as answers carried it before tokens')
    for (const position of ['soon', 'pos_1_42', '42, 42']) {
      const { body } = await read(position)
      assert.equal(body.code, 'invalid_parameter')
      assert.match(body.error, /such as pos_0_1284, as an answer carried it/)
    }
    const headers = { 'x-farebox-position': 'soon' }
    const write = await client.call('DELETE', '/api/v1/orders/ord_1', { key: 'buyer-key', headers })
    assert.equal(write.body.code, 'invalid_parameter', 'a write may read before it writes')
  })
})

describe('Paging', () => {
  const page = async (t: Parameters<typeof sampleServer>[0], query: string) => {
    const { client } = await sampleServer(t)
    return (await client.get(`/api/v1/orders?${query}`, { key: 'buyer-key' })).body
  }

  test('gives 50 entries from the start by default', async (t) => {
    assert.deepEqual(await page(t, ''), { orders: [], total: 0, limit: 50, offset: 0 })
  })

  test('caps a size above 100, however large', async (t) => {
    assert.equal((await page(t, 'limit=101')).limit, 100)
    assert.equal((await page(t, 'limit=99999999999999999999')).limit, 100)
  })

  test('refuses values that are not numbers', async (t) => {
    for (const bad of [
      'limit=0',
      'limit=-1',
      'limit=x',
      'limit=',
      'limit=1.5',
      'limit=1e2',
      'limit=1&limit=2',
    ])
      assert.equal((await page(t, bad)).code, 'invalid_limit', bad)
    for (const bad of ['offset=-1', 'offset=x', 'offset=', 'offset=99999999999999999999'])
      assert.equal((await page(t, bad)).code, 'invalid_offset', bad)
  })

  test('refuses unknown parameters with the accepted ones', async (t) => {
    const { code, error } = await page(t, 'colour=blue&__proto__=1')
    assert.equal(code, 'invalid_parameter')
    assert.match(error, /unknown query parameter "colour".*; accepted parameters: limit, offset/)
  })
})
