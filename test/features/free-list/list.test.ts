import assert from 'node:assert/strict'
import { request } from 'node:http'
import { type TestContext, test } from 'node:test'
import { type Called, httpClient } from '../../support/http.ts'
import { machineMs } from '../../support/machine-time.ts'
import { secondClient, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { type Recorded, record } from './support/recorded.ts'

const world: readonly Recorded[] = [
  {
    ip: '8.8.8.8',
    port: 3128,
    protocols: ['http', 'https'],
    anonymity: 'elite',
    latenciesMs: [300, 100, 200],
  },
  { ip: '1.1.1.1', port: 1080, protocols: ['socks5'], anonymity: 'anonymous', latenciesMs: [50] },
  {
    ip: '8.8.4.4',
    port: 1080,
    protocols: ['socks4', 'socks5'],
    anonymity: 'elite',
    answered: [true, false, true],
  },
  { ip: '2001:4860:4860::8888', port: 8080, anonymity: 'transparent' },
  { ip: '9.9.9.9', port: 80, state: 'not_answering' },
  { ip: '9.9.9.10', port: 80, state: 'never_answered' },
]

/** The service of the file has the world once. */
let isRecorded: Promise<unknown> | undefined

const listed = async (t: TestContext) => {
  const app = await testApp(t, { own: 'file' })
  const { pool } = app.core
  isRecorded ??= record(pool, world)
  await isRecorded
  return { ...app, pool, anybody: httpClient(app.baseUrl, app.document) }
}

/** Sends exactly these headers: `fetch` adds some, which is fine, but this one is a plain client of old. */
const plainGet = (url: string): Promise<{ status: number; headers: Record<string, unknown>; text: string }> =>
  new Promise((resolve, reject) => {
    request(url, (answer) => {
      let text = ''
      answer.setEncoding('latin1').on('data', (part) => {
        text += part
      })
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }))
    })
      .on('error', reject)
      .end()
  })

test('the list contains the proxies that answered their last check, the best first, with true figures', async (t) => {
  const { anybody } = await listed(t)
  const { body } = await anybody.get('/api/proxy-list')
  assert.deepEqual(
    body.proxies.map(({ ip }: { ip: string }) => ip),
    ['1.1.1.1', '2001:4860:4860::8888', '8.8.8.8', '8.8.4.4'],
  )
  const [, , google, flapping] = body.proxies
  assert.deepEqual([google.latency_ms, google.uptime_24h, google.protocols], [200, 100, ['http', 'https']])
  assert.deepEqual([google.country_code, google.city, google.asn], ['us', 'Mountain View', 15169])
  assert.equal(google.asn_org, 'Google LLC')
  assert.equal(flapping.uptime_24h, 66.7)
  assert.equal(body.total, 4)
  assert.equal(body.count, 4)
})

test('filters keep what they name, and txt has one line for each proxy', async (t) => {
  const { anybody } = await listed(t)
  const lines = async (query: string): Promise<string> =>
    (await anybody.get(`/api/proxy-list?format=txt&${query}`)).text
  assert.equal(await lines('protocol=socks5'), '1.1.1.1:1080\n8.8.4.4:1080\n')
  assert.equal(await lines('protocol=socks5&country=us'), '8.8.4.4:1080\n')
  assert.equal(await lines('protocol=socks5&country=USA'), '8.8.4.4:1080\n')
  assert.equal(await lines('anonymity=transparent'), '[2001:4860:4860::8888]:8080\n')
  assert.equal(await lines('limit=1'), '1.1.1.1:1080\n')
  assert.equal(await lines('country=fr'), '')
  const { body } = await anybody.get('/api/proxy-list?protocol=socks5&limit=1')
  assert.deepEqual([body.total, body.count], [2, 1])
  assert.equal((await anybody.get('/api/proxy-list?limit=99999')).body.count, 4)
})

test('a prebuilt answer equals the computed one', async (t) => {
  const { baseUrl, anybody } = await listed(t)
  for (const query of ['format=txt', 'format=json&limit=3', 'format=txt&protocol=socks5', '']) {
    const url = `${baseUrl}/api/proxy-list${query && '?'}${query}`
    await anybody.get('/api/proxy-list')
    const ready = await plainGet(url)
    // A condition that does not hold takes the ordinary way.
    const ordinary = await fetch(url, { headers: { 'If-None-Match': '"other"' } })
    assert.equal(ready.text, await ordinary.text(), query)
    for (const [name, value] of ordinary.headers)
      if (name !== 'date' && name !== 'x-request-id')
        assert.equal(ready.headers[name], value, `${query}: ${name}`)
  }
})

test('a client with the current list gets 304', async (t) => {
  const { anybody, baseUrl, pool } = await listed(t)
  const etag = (await anybody.get('/api/proxy-list')).headers.get('etag') ?? ''
  const again = () => fetch(`${baseUrl}/api/proxy-list`, { headers: { 'If-None-Match': etag } })
  assert.equal((await again()).status, 304)
  assert.equal((await again()).headers.get('access-control-allow-origin'), '*')
  await record(pool, [{ ip: '4.4.4.4', port: 80 }])
  await until(async () => (await again()).status === 200)
})

test('an endpoint that stops answering leaves the list within seconds, and returns by itself', async (t) => {
  const { anybody, pool } = await listed(t)
  const has = async () => (await anybody.get('/api/proxy-list?format=txt')).text.includes('8.8.8.8:3128')
  assert.ok(await has())
  const set = (state: string) =>
    pool.query('update work.free_proxies set state = $1 where ip = $2', [state, '8.8.8.8'])
  await set('not_answering')
  const startMs = machineMs()
  await until(async () => !(await has()), { everyMs: 100 })
  assert.ok(machineMs() - startMs < 5_000)
  await set('live')
  await until(has, { everyMs: 100 })
})

test('bad parameters are refused with the accepted set', async (t) => {
  const { anybody } = await listed(t)
  const refusals = [
    ['format=xml', 'invalid_parameter', /json, txt/],
    ['protocol=ftp', 'invalid_parameter', /http, https, socks4, socks5/],
    ['anonymity=high', 'invalid_parameter', /elite, anonymous, transparent/],
    ['country=zz', 'invalid_parameter', /ISO 3166/],
    ['country=', 'invalid_parameter', /ISO 3166/],
    ['protocol=http&protocol=https', 'invalid_parameter', /http, https/],
    ['limit=0', 'invalid_limit', /at least 1/],
    ['limit=1.5', 'invalid_limit', /whole number/],
    ['limit=-3', 'invalid_limit', /whole number/],
    ['limit=many', 'invalid_limit', /whole number/],
  ] as const
  for (const [query, code, words] of refusals) {
    const { status, body, headers } = await anybody.get(`/api/proxy-list?${query}`)
    assert.deepEqual([status, body.code], [400, code], query)
    assert.match(body.error, words)
    assert.equal(headers.get('access-control-allow-origin'), '*')
  }
})

test('an address gets 120 lists in a burst, then 429 with the seconds to wait', async (t) => {
  const limited = await secondClient(t, await listed(t), { FAREBOX_RATE_LIMIT: 'on' })
  const startMs = performance.now()
  const answers: Called[] = []
  const refused = () => answers.find(({ status }) => status !== 200)
  // A machine that is slow to answer so many gives back some meanwhile.
  while (!refused())
    answers.push(...(await Promise.all(Array.from({ length: 130 }, () => limited.get('/api/proxy-list')))))
  const back = Math.ceil((2 * (performance.now() - startMs)) / 1_000)
  const taken = answers.filter(({ status }) => status === 200).length
  assert.ok(taken >= 120 && taken <= 120 + back, `${taken} of ${answers.length}, ${back} back`)
  const { status, body, headers } = refused()!
  assert.deepEqual([status, body.code], [429, 'rate_limited'])
  assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/)
})
