import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { collect } from '../gateway/support/collect.ts'
import { sampleRoutes, sampleServer } from '../platform/http/sample.ts'
import { mostHeldMs, threadCpuMs, watchMainThread } from '../support/main-thread.ts'
import { testApp } from '../support/test-app.ts'
import { operationsOf } from './generated.ts'
import { idsOf, liveOf } from './live.ts'
import { finishedBatch } from './scrape-cases.ts'

const soak = process.env.FAREBOX_SOAK === '1'

/** Takes so much of the thread's CPU time. */
const spin = (ms: number): void => {
  for (const end = threadCpuMs() + ms; threadCpuMs() < end; );
}

test('the synchronous work of a request is measured as one block across callbacks, and each wait ends it', async (t) => {
  const routes = sampleRoutes.map((each) => ({
    ...each,
    handler: (async (request: { address: string }) => {
      spin(40)
      await null
      spin(40)
      if (each.operationId === 'getProxyList') await pause(1)
      spin(40)
      return each.handler(request as never)
    }) as never,
  }))
  const { client, port } = await sampleServer(t, { routes })
  await client.get('/api/v1/me', { key: 'buyer-key' })
  // The time of a collection is left out, so none should be due in one of the stretches.
  collect()
  const { stop } = watchMainThread(port)
  await client.get('/api/v1/me', { key: 'buyer-key' })
  await client.get('/api/proxy-list')
  spin(200) // of the test, for no request
  const stretches = (await stop()).map(
    ({ request, heldMs }) => `${request} ${Math.round(heldMs / 40)} × 40 ms`,
  )
  assert.deepEqual(stretches, [
    'GET /api/v1/me 3 × 40 ms',
    'GET /api/proxy-list 2 × 40 ms',
    'GET /api/proxy-list 1 × 40 ms',
  ])
})

const digits = '0'.repeat(250_000)
const values = Array.from({ length: 2_000 }, (_, at) => `"f${at}":${at}.0000000000000001`).join(',')
const bodies: readonly string[] = [
  `{"quantity":0.${digits}1}`,
  `{"quantity":1e-${digits}1}`,
  `{"product_id":"${digits}"}`,
  `{"product_id":"${'\\u0041'.repeat(40_000)}"}`,
  `{"product_id":"${'\\"'.repeat(120_000)}"}`,
  `{"url":"https://${'a.'.repeat(100_000)}"}`,
  `{"label":"${'é'.repeat(120_000)}"}`,
  `{${values.slice(0, 250_000)}}`,
  `{"proxy_ids":[${Array(1_999).fill(`"${'x'.repeat(100)}"`)}]}`,
  `{"events":[${Array(1_999).fill('"ping"')}]}`,
  `{"amount_cents":[${Array(1_999).fill('{}')}]}`,
  '['.repeat(250_000),
  '"'.repeat(250_000),
  ' '.repeat(250_000),
  '\\'.repeat(250_000),
  '-'.repeat(250_000),
]
const long = 'a'.repeat(14_000)
const headers: readonly Readonly<Record<string, string>>[] = [
  { 'content-type': `application/json; ${'charset='.repeat(1_700)}` },
  { 'content-type': `application/json;${' '.repeat(14_000)}x` },
  { authorization: `Bearer${' '.repeat(14_000)}` },
  { 'idempotency-key': long },
  { 'x-reseller-customer-id': long },
  { 'x-farebox-position': '1'.repeat(14_000) },
  { 'x-forwarded-for': '1,'.repeat(7_000) },
  {
    accept: 'a/b;q=0.0,'.repeat(1_400),
    'if-none-match': '"a",'.repeat(100),
    'accept-encoding': `gzip;q=0.${'0'.repeat(500)}`,
  },
]
const queries: readonly string[] = [
  `?${'a=1&'.repeat(3_500)}`,
  `?${'limit=1&'.repeat(1_700)}`,
  `?limit=${'1'.repeat(14_000)}&offset=${'0'.repeat(100)}`,
  `?from=${'2026-'.repeat(2_500)}`,
  `?status=${'%41'.repeat(4_500)}`,
]

test('no hostile body, header or query blocks the main thread for long, for any operation', async (t) => {
  const app = await testApp(t, { with: ['financeToken'] })
  const { demo, document, baseUrl } = app
  await app.credit(demo.buyer.accountId, 1_000_000_000)
  const live = await liveOf(app.client, demo.buyer.key, [await finishedBatch(app)])
  const send = async (method: string, path: string, init: RequestInit): Promise<void> => {
    const answer = await fetch(`${baseUrl}${path}`, { ...init, method })
    await answer.arrayBuffer()
    assert.ok(answer.status < 500 || answer.status === 502, `${method} ${path}: ${answer.status}`)
  }
  const all = async (): Promise<void> => {
    for (const [n, operation] of operationsOf(document).entries()) {
      const [id = ''] = idsOf(live, operation)
      const ids = id.split('|')
      const path = operation.path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(ids.shift() ?? ''))
      const key = operation.path.startsWith('/finance/') ? app.financeToken : demo.buyer.key
      /** A part of them for each operation, every one for some. */
      const some = <Hostile>(list: readonly Hostile[]): readonly Hostile[] =>
        soak ? list : list.filter((_, at) => (at + n) % 9 === 0)
      const own = { 'x-api-key': key, 'content-type': 'application/json' }
      if (operation.method === 'GET') {
        for (const query of some(queries)) await send('GET', `${path}${query}`, { headers: own })
        for (const more of some(headers)) await send('GET', path, { headers: { ...own, ...more } })
      } else if (operation.body !== null) {
        for (const body of some(bodies)) await send(operation.method, path, { headers: own, body })
        for (const more of some(headers))
          await send(operation.method, path, { headers: { ...own, ...more }, body: '{}' })
      }
    }
  }
  const { stop } = watchMainThread(Number(new URL(baseUrl).port))
  await all()
  const [longest] = await stop()
  t.diagnostic(`held the main thread for longest: ${JSON.stringify(longest ?? 'all under 10 ms')}`)
  assert.ok((longest?.heldMs ?? 0) < mostHeldMs, JSON.stringify(longest))
})
