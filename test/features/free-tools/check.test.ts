import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { socketAddressText } from '../../../src/domain/free-list/endpoint.ts'
import { createIpData } from '../../../src/features/free-list/ip-data.ts'
import { type Check, CheckUnavailable } from '../../../src/features/free-list/probe-port.ts'
import {
  createCheckProxies,
  createCheckSlots,
  readProxy,
} from '../../../src/features/free-tools/check-proxies.ts'
import { freeProxyCheckRoutes } from '../../../src/features/free-tools/check-routes.ts'
import { openApiDocument } from '../../../src/platform/api-docs/openapi-document.ts'
import { createHttpMetrics } from '../../../src/platform/http/gauges.ts'
import { createRateLimiter } from '../../../src/platform/http/rate-limiter.ts'
import { createHttpServer } from '../../../src/platform/http/server.ts'
import type { Resolve } from '../../../src/platform/outgoing/target.ts'
import { withSandboxLocations } from '../../../src/sandbox/exit-locations.ts'
import { planProxies } from '../../../src/sandbox/free-list/plan.ts'
import { type Document, httpClient } from '../../support/http.ts'
import { until } from '../../support/until.ts'
import { startProber, startWorld } from '../free-list/world.ts'

const monotonicMs = (): number => performance.now()

const unresolved: Resolve = async () => {
  throw new Error('ENOTFOUND')
}

/** The two operations on a server of their own. */
const serve = async (
  t: TestContext,
  parts: {
    readonly check: Check
    readonly sandbox?: boolean
    readonly resolve?: Resolve
    readonly own?: readonly string[]
    readonly rate?: { readonly burst: number; readonly perSecond: number }
    readonly seats?: { readonly total: number; readonly perCaller: number }
  },
) => {
  const slots = createCheckSlots(parts.seats ?? { total: 400, perCaller: 40 })
  const checkProxies = createCheckProxies({
    check: parts.check,
    rules: async () => ({ sandbox: parts.sandbox ?? false, own: new Set(parts.own) }),
    resolve: parts.resolve ?? unresolved,
    data: withSandboxLocations(createIpData({ country: null, city: null, network: null })),
    slots,
    limiter:
      parts.rate === undefined
        ? null
        : { ...createRateLimiter(parts.rate, () => 0), burst: parts.rate.burst },
    clock: Date.now,
  })
  const routes = freeProxyCheckRoutes({ checkProxies })
  const logger = pino({ level: 'silent' })
  const server = createHttpServer({
    routes,
    directory: { byKey: async () => null },
    customerIdOf: () => assert.fail('there are no customers'),
    logger,
    metrics: createHttpMetrics(new Registry()),
    limits: null,
    monotonicMs,
  })
  t.after(() => server.close())
  const baseUrl = await server.listen({ port: 0, host: '127.0.0.1' })
  const document = openApiDocument(routes, { forTests: true }) as unknown as Document
  return { baseUrl, seats: slots, anybody: httpClient(baseUrl, document) }
}

/** Fails the test when anything is dialled. */
const dialsNothing: Check = async (place) => assert.fail(`${socketAddressText(place)} was dialled`)

const until1s = { timeoutMs: 5_000 }

test('a check reports the true properties of each proxy', async (t) => {
  const planned = planProxies(24)
  const running = await startWorld(t, planned)
  const { prober } = await startProber(t)
  const { anybody, seats } = await serve(t, { check: prober.check, sandbox: true })
  const proxies = running.map(({ planned: { ip }, port }) => socketAddressText({ ip, port }))
  const truths = running.map(({ planned: { truth } }) => truth)
  const batch = proxies.slice(0, 20)
  const { status, body } = await anybody.post('/api/proxy-check', { proxies: batch, timeout_ms: 4_000 })
  assert.equal(status, 200)
  for (const [at, result] of body.results.entries()) {
    const { proxy, alive, protocols, anonymity, exit_ip, error } = result
    const truth = truths[at]!
    assert.deepEqual(
      { proxy, alive, protocols, anonymity, exit_ip, error },
      {
        proxy: batch[at],
        alive: truth.alive,
        protocols: truth.protocols,
        anonymity: truth.anonymity,
        exit_ip: truth.exitIp,
        error: truth.error,
      },
    )
    if (alive) assert.ok(result.latency_ms >= result.connect_ms)
  }
  const alive = truths.slice(0, 20).filter((truth) => truth.alive)
  assert.deepEqual([body.summary.checked, body.summary.alive], [20, alive.length])
  assert.equal(seats.taken(), 0)

  const at = truths.findIndex((truth) => truth.protocols.includes('http') && truth.protocols.length > 1)
  const one = await anybody.get(`/api/proxy-check?proxy=${proxies[at]}&protocol=http`)
  assert.deepEqual([one.body.alive, one.body.protocols], [true, ['http']])
})

test('a streaming check sends each result as it arrives, and the summary last', async (t) => {
  const running = await startWorld(t, planProxies(12))
  const { prober } = await startProber(t)
  const { baseUrl } = await serve(t, { check: prober.check, sandbox: true })
  const proxies = running.map(({ planned: { ip }, port }) => socketAddressText({ ip, port }))
  const answer = await fetch(`${baseUrl}/api/proxy-check`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream' },
    body: JSON.stringify({ proxies, timeout_ms: 4_000 }),
  })
  assert.match(answer.headers.get('content-type') ?? '', /^text\/event-stream/)
  assert.equal(answer.headers.get('x-accel-buffering'), 'no')
  assert.equal(answer.headers.get('access-control-allow-origin'), '*')
  const events = (await answer.text())
    .trimEnd()
    .split('\n\n')
    .map((text) => /^event: (\w+)\ndata: (.*)$/.exec(text)!)
    .map(([, name, data = '']) => ({ name, data: JSON.parse(data) }))
  assert.deepEqual(
    events.map(({ name }) => name),
    [...proxies.map(() => 'result'), 'summary'],
  )
  const results = events.slice(0, -1).map(({ data }) => data)
  assert.deepEqual(
    results.map(({ index }) => index).sort((a, b) => a - b),
    [...proxies.keys()],
  )
  for (const { index, proxy } of results) assert.equal(proxy, proxies[index])
  assert.equal(events.at(-1)?.data.checked, 12)
})

test('a client that disconnects ends the checks, for every form of answer', async (t) => {
  const begun: AbortSignal[] = []
  const hangs: Check = (_place, _options, signal) => {
    begun.push(signal)
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  }
  const { baseUrl, seats } = await serve(t, { check: hangs })
  const requests: readonly [string, RequestInit][] = [
    ['?proxy=8.8.8.8:80', {}],
    ['', { method: 'POST', body: JSON.stringify({ proxies: ['8.8.8.8:80', '8.8.4.4:80'] }) }],
    [
      '',
      {
        method: 'POST',
        body: JSON.stringify({ proxies: ['8.8.8.8:80'] }),
        headers: { Accept: 'text/event-stream' },
      },
    ],
  ]
  for (const [query, init] of requests) {
    begun.length = 0
    const leaving = new AbortController()
    const headers = { 'Content-Type': 'application/json', ...init.headers }
    const answer = fetch(`${baseUrl}/api/proxy-check${query}`, {
      ...init,
      headers,
      signal: leaving.signal,
    }).then((response) => response.text())
    await until(() => begun.length > 0 && seats.taken() > 0, until1s)
    leaving.abort()
    await assert.rejects(answer)
    await until(() => begun.every(({ aborted }) => aborted) && seats.taken() === 0, until1s)
  }
})

test('a proxy is read in every usual form, and other texts are refused', () => {
  const login = { username: 'ann', password: 's3cret' }
  const forms = {
    '8.8.8.8:3128': ['8.8.8.8', 3128, null, null],
    ' 8.8.8.8:3128 ': ['8.8.8.8', 3128, null, null],
    'ann:s3cret@8.8.8.8:3128': ['8.8.8.8', 3128, login, null],
    '8.8.8.8:3128:ann:s3cret': ['8.8.8.8', 3128, login, null],
    'socks5://ann:s3cret@Proxy.Example.COM:1080': ['proxy.example.com', 1080, login, 'socks5'],
    'socks5h://8.8.8.8:1080': ['8.8.8.8', 1080, null, 'socks5'],
    'http://8.8.8.8:80/': ['8.8.8.8', 80, null, 'http'],
    '[2001:4860:4860::8888]:8080': ['2001:4860:4860::8888', 8080, null, null],
    'ann:s3%3Acret@8.8.8.8:80': ['8.8.8.8', 80, { username: 'ann', password: 's3:cret' }, null],
    'ann:a:b@8.8.8.8:80': ['8.8.8.8', 80, { username: 'ann', password: 'a:b' }, null],
  }
  for (const [text, [host, port, login, protocol]] of Object.entries(forms))
    assert.deepEqual(readProxy(text), { host, port, login, protocol }, text)
  const none = [
    '',
    ':80',
    '8.8.8.8',
    '8.8.8.8:',
    '8.8.8.8:0',
    '8.8.8.8:65536',
    '8.8.8.8:80/x',
    '8.8.8.8:80?x',
    'ftp://8.8.8.8:21',
    'http://',
    '2001:db8::1:80',
    'a b:80',
    'a\r\nHost: b:80',
    '@8.8.8.8:80',
    ':p@8.8.8.8:80',
    'file:///etc/passwd',
    '8.8.8.8:80#x',
    '%zz@8.8.8.8:80',
    `${'a'.repeat(600)}:80`,
    `${'u'.repeat(256)}:p@8.8.8.8:80`,
  ]
  for (const text of none) assert.equal(readProxy(text), null, text)
})

/** Each resolves, or would resolve, to a target that this service must never call. */
const forbidden = [
  '127.0.0.1:80',
  '127.1:80',
  '2130706433:80',
  '0x7f000001:80',
  '0177.0.0.1:80',
  '0:80',
  '0.0.0.0:8080',
  '10.0.0.1:3128',
  '172.16.0.1:80',
  '192.168.0.1:8080',
  '169.254.169.254:80',
  '100.64.0.1:80',
  '100.100.100.200:80',
  '198.18.0.1:80',
  '192.0.2.1:80',
  '203.0.113.9:80',
  '224.0.0.1:80',
  '240.0.0.1:80',
  '255.255.255.255:80',
  '168.63.129.16:80',
  '[::1]:80',
  '[::]:80',
  '[fe80::1]:80',
  '[fc00::1]:80',
  '[::ffff:127.0.0.1]:80',
  '[::ffff:a00:1]:80',
  '[64:ff9b::7f00:1]:80',
  '[2002:7f00:1::]:80',
  '[2001:db8::1]:80',
  '[ff02::1]:80',
  '[::127.0.0.1]:80',
  'localhost:80',
  'x.localhost:80',
  'metadata.google.internal:80',
  'router.lan:80',
  'db:5432',
  'printer.local:80',
  '127.80.0.1:8080',
  'user:pass@10.0.0.1:80',
  'socks5://127.0.0.1:1080',
  '10.0.0.1:80:user:pass',
  '8.8.8.8:25',
  '8.8.8.8:465',
  '8.8.8.8:587',
  '9.9.9.9:80',
  'inside.example:80',
  'mixed.example:80',
  'mapped.example:80',
  'ours.example:80',
] as const

const names: Readonly<Record<string, readonly string[]>> = {
  'inside.example': ['10.0.0.1'],
  'mixed.example': ['8.8.8.8', '127.0.0.1'],
  'mapped.example': ['::ffff:127.0.0.1'],
  'ours.example': ['9.9.9.9'],
}

test('no private, reserved or own address is dialled, in any spelling', async (t) => {
  const resolve: Resolve = async (name) => names[name] ?? unresolved(name)
  const { anybody } = await serve(t, { check: dialsNothing, resolve, own: ['9.9.9.9'] })
  for (const proxy of forbidden) {
    const got = await anybody.get(`/api/proxy-check?proxy=${encodeURIComponent(proxy)}`)
    assert.deepEqual([got.status, got.body.code], [400, 'invalid_parameter'], proxy)
    assert.doesNotMatch(got.text, /pass/, 'the password is not shown')
    const posted = await anybody.post('/api/proxy-check', { proxies: ['8.8.8.8:3128', proxy] })
    assert.deepEqual([posted.status, posted.body.code], [400, 'invalid_parameter'], proxy)
  }
})

test('a name is resolved once, and the resolved address is dialled', async (t) => {
  const answers = [['8.8.8.8'], ['127.0.0.1']]
  let lookups = 0
  const dialled: string[] = []
  const check: Check = async (place) => {
    dialled.push(socketAddressText(place))
    throw new CheckUnavailable('no judge answers')
  }
  const { anybody } = await serve(t, { check, resolve: async () => answers[lookups++] ?? [] })
  const { status, body } = await anybody.get('/api/proxy-check?proxy=rebinding.example:3128')
  assert.deepEqual([status, body.code], [503, 'overloaded'])
  assert.deepEqual([lookups, dialled], [1, ['8.8.8.8:3128']])
})

test('a name without an address is a failed proxy', async (t) => {
  const { anybody } = await serve(t, { check: dialsNothing })
  const { body } = await anybody.get('/api/proxy-check?proxy=nowhere.example:3128')
  assert.deepEqual([body.alive, body.error, body.proxy], [false, 'host_not_found', 'nowhere.example:3128'])
})

test('bad requests are refused with the accepted values', async (t) => {
  const { anybody } = await serve(t, { check: dialsNothing })
  const post = (json: unknown) => anybody.post('/api/proxy-check', json)
  const good = '8.8.8.8:80'
  const refusals = [
    [await anybody.get('/api/proxy-check'), 'invalid_parameter', /proxy is missing/],
    [await anybody.get('/api/proxy-check?proxy=x'), 'invalid_parameter', /host:port/],
    [
      await anybody.get(`/api/proxy-check?proxy=${good}&protocol=ftp`),
      'invalid_parameter',
      /http, https, socks4, socks5/,
    ],
    [await anybody.get(`/api/proxy-check?proxy=${good}&timeout_ms=10`), 'invalid_parameter', /1000/],
    [await post({}), 'invalid_body', /proxies is missing/],
    [await post({ proxies: [] }), 'invalid_parameter', /proxies/],
    [await post({ proxies: Array(21).fill(good) }), 'invalid_parameter', /20/],
    [await post({ proxies: [good, 'nonsense'] }), 'invalid_parameter', /proxy 2 of 2 must be host:port/],
    [await post({ proxies: [good], protocols: ['ftp'] }), 'invalid_parameter', /socks5/],
    [await post({ proxies: [good], timeout_ms: 60_000 }), 'invalid_parameter', /20000/],
    [
      await post({ proxies: [good], judge: 'http://evil.example/' }),
      'unknown_field',
      /proxies, protocols, timeout_ms/,
    ],
    [await post({ proxies: good }), 'invalid_body', /proxies/],
  ] as const
  for (const [{ status, body }, code, words] of refusals) {
    assert.deepEqual([status, body.code], [400, code], body.error)
    assert.match(body.error, words)
  }
})

test('a caller has a limited number of checks at once and per second', async (t) => {
  const waiting: (() => void)[] = []
  const waits: Check = async () => {
    await new Promise<void>((resolve) => waiting.push(resolve))
    throw new CheckUnavailable('no judge answers')
  }
  const rate = { burst: 6, perSecond: 1 }
  const { anybody, seats } = await serve(t, { check: waits, rate, seats: { total: 3, perCaller: 2 } })
  const pair = anybody.post('/api/proxy-check', { proxies: ['8.8.8.8:80', '8.8.4.4:80'] })
  await until(() => waiting.length === 2, until1s)
  const third = await anybody.get('/api/proxy-check?proxy=8.8.8.8:80')
  assert.deepEqual([third.status, third.body.code], [429, 'rate_limited'], 'two of a caller at once')
  assert.match(third.body.error, /of yours/)
  for (const go of waiting) go()
  assert.equal((await pair).status, 503)
  assert.equal(seats.taken(), 0)
  const many = await anybody.post('/api/proxy-check', { proxies: Array(6).fill('8.8.8.8:80') })
  assert.deepEqual([many.status, many.body.code], [429, 'rate_limited'], 'six more within a second')
  assert.ok(Number(many.headers.get('retry-after')) >= 1)
})
