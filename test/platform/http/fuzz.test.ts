import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import fc, { runs } from '../../support/fast-check.ts'
import { sampleServer } from './sample.ts'

const keys = fc.constantFrom('buyer-key', 'scraper-key', 'reseller-key', 'blocked-key', 'unknown')
const methods = fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD')
const segments = fc.oneof(
  fc.constantFrom(
    'api',
    'v1',
    'orders',
    'me',
    'ord_1',
    'scrape',
    'proxy-list',
    '..',
    '%00',
    '%ff',
    '%2f',
    '',
  ),
  fc.string({ maxLength: 12 }).map(encodeURIComponent),
)
const paths = fc.oneof(
  fc.constantFrom(
    '/api/v1/orders',
    '/api/v1/orders/ord_1',
    '/api/v1/me',
    '/v1/scrape/video',
    '/api/proxy-list',
  ),
  fc.array(segments, { maxLength: 5 }).map((parts) => `/${parts.join('/')}`.replace(/^\/\/+/, '/')),
)
const queries = fc.oneof(
  fc.constant(''),
  fc.constantFrom(
    '?limit=0',
    '?limit=1e9',
    '?offset=-1',
    '?limit=1&limit=2',
    '?status=%00',
    '?status=__proto__',
    '?%',
    '?limit[]=1',
  ),
)
const headerTexts = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'ab 1,"\u00e9\u00ff'), maxLength: 20 }),
  fc.constant('x'.repeat(300)),
)
const headers = fc.record(
  {
    'idempotency-key': headerTexts,
    'x-reseller-customer-id': headerTexts,
    'x-request-id': headerTexts,
    'x-farebox-position': headerTexts,
    'content-type': fc.constantFrom(
      'application/json',
      'text/plain',
      'application/json; charset=latin1',
      ';;',
    ),
  },
  { requiredKeys: [] },
)
/** Bodies near to the documented one, and bodies that are not. */
const near = fc.record(
  {
    product_id: fc.oneof(fc.constant('residential'), fc.jsonValue()),
    quantity: fc.oneof(fc.integer(), fc.double(), fc.jsonValue()),
    fulfillment_meta: fc.oneof(
      fc.record({ country: fc.jsonValue(), period_days: fc.jsonValue() }),
      fc.jsonValue(),
    ),
    method: fc.oneof(fc.constantFrom('wallet', 'card', 'shells'), fc.jsonValue()),
    __proto__: fc.jsonValue(),
    constructor: fc.jsonValue(),
  },
  { requiredKeys: [] },
)
const bodies = fc.oneof(
  near.map((value) => JSON.stringify(value)),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.string({ unit: fc.constantFrom(...'{}[]":,\\u0dD8e1.-'), maxLength: 40 }),
)

describe('Arbitrary input', () => {
  test('gets a declared answer, and never a 500', async (t) => {
    const requests = runs(1_200, 30_000)
    const { client } = await sampleServer(t)
    await fc.assert(
      fc.asyncProperty(
        methods,
        paths,
        queries,
        keys,
        headers,
        bodies,
        async (method, path, query, key, sent, body) => {
          const withBody = method !== 'GET' && method !== 'HEAD'
          await client.call(method, `${path}${query}`, {
            key,
            headers: sent,
            ...(withBody ? { raw: body } : {}),
          })
        },
      ),
      { numRuns: requests },
    )
    assert.ok(client.seen.size >= Math.min(15, requests / 50), [...client.seen].join('\n'))
  })

  test('as bytes on the socket leaves the server working', async (t) => {
    const { client, port } = await sampleServer(t)
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc
        .string({ unit: fc.constantFrom(...'GETPOS /HTTP1.:\r\n\u0000ab'), maxLength: 120 })
        .map((text) => Buffer.from(text, 'latin1')),
    )
    await fc.assert(
      fc.asyncProperty(bytes, async (sent) => {
        const socket = connect(port, '127.0.0.1')
        await once(socket, 'connect')
        socket.on('error', () => socket.destroy())
        socket.resume()
        socket.end(sent)
        await once(socket, 'close')
      }),
      { numRuns: runs(200) },
    )
    assert.equal((await client.get('/api/v1/me', { key: 'buyer-key' })).status, 200)
  })
})
