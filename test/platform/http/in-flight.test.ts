import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Registry } from 'prom-client'
import { z } from 'zod'
import type { Caller } from '../../../src/platform/http/auth.ts'
import { trustedProxies } from '../../../src/platform/http/connections.ts'
import { createHttpMetrics } from '../../../src/platform/http/gauges.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { createRateLimiter } from '../../../src/platform/http/rate-limiter.ts'
import { type Route, route } from '../../../src/platform/http/route.ts'
import type { HttpServerOptions } from '../../../src/platform/http/server.ts'
import { until } from '../../support/until.ts'
import { type Dialled, dial, orderHead } from './raw.ts'
import { sampleDirectory, sampleRoutes, sampleServer } from './sample.ts'

/** A server with two slots, and its figures. */
const openSmall = async (t: TestContext, over: Partial<HttpServerOptions> = {}) => {
  const registry = new Registry()
  const lines: string[] = []
  const server = await sampleServer(t, {
    maxInFlight: 2,
    metrics: createHttpMetrics(registry),
    logger: createLogger('info', { write: (line) => void lines.push(line) }),
    times: { requestMs: 60_000 },
    ...over,
  })
  const inFlight = async () => {
    const { values } = await registry.getSingleMetric('farebox_http_requests_in_flight')!.get()
    return values[0]!.value
  }
  const me = async (key = 'buyer-key') => (await server.client.get('/api/v1/me', { key })).status
  const statuses = () => lines.map((line) => JSON.parse(line).status)
  return { ...server, inFlight, dial: (bytes: string) => dial(t, server.port, bytes), me, statuses }
}

const order = '{"product_id":"residential","quantity":5}'
/** An order of which only the first byte comes. */
const halfAnOrder = (path?: string, key?: string, more?: string) =>
  `${orderHead(order.length, path, key, more)}{`

const many = createRateLimiter({ burst: 100_000, perSecond: 1_000 }, () => 0)
const limits = { perAddress: many, perKey: many }

/** A directory in which every account that a test thinks of has a key: `acc-7-key`. */
const anybody = {
  byKey: async (key: string, address: string): Promise<Caller | null> => {
    const buyer = await sampleDirectory.byKey('buyer-key', address)
    const account = /^(acc-\d+)-key$/.exec(key)?.[1]
    return account === undefined || buyer === null
      ? sampleDirectory.byKey(key, address)
      : { ...buyer, accountId: account as never, keyId: `key-${account}` as never }
  },
}

const leaving: Readonly<Record<string, (socket: import('node:net').Socket) => unknown>> = {
  resets: (socket) => socket.resetAndDestroy(),
  'hangs up': (socket) => socket.destroy(),
  'says that no more comes': (socket) => socket.end(),
}
for (const [how, leave] of Object.entries(leaving))
  test(`a client that ${how} during its body had no slot, frees its memory, and is logged`, async (t) => {
    const { dial, inFlight, me, statuses } = await openSmall(t, { limits, arriving: { perSender: 2 } })
    const clients = [await dial(halfAnOrder()), await dial(halfAnOrder())]
    const third = await dial(halfAnOrder())
    await until(() => third.heard().startsWith('HTTP/1.1 429 '))
    assert.deepEqual([await inFlight(), await me()], [0, 200])
    for (const { socket } of clients) leave(socket)
    await until(() => statuses().filter((status) => status === 499).length === 2)
    const last = await dial(halfAnOrder())
    last.socket.write(order.slice(1))
    await until(() => last.heard().startsWith('HTTP/1.1 201 '))
    await until(() => statuses().length === 5)
    assert.deepEqual(statuses(), [429, 200, 499, 499, 201])
  })

test('an account with too many bodies in transit is refused, in the form of every error', async (t) => {
  const { dial } = await openSmall(t, { limits, arriving: { perSender: 1 } })
  const clients = [await dial(halfAnOrder()), await dial(halfAnOrder())]
  const { heard } = await until(() => clients.find(({ heard }) => heard().endsWith('}\n')))
  const refused = heard()
  assert.match(refused, /^HTTP\/1\.1 429 [\s\S]*retry-after: 1\r\n/)
  assert.match(refused, /"error":"1 bodies of this account are on their way[^"]*","code":"rate_limited"/)
})

test('slow bodies of many accounts block none: the slowest of them is dropped', async (t) => {
  const { dial, client, inFlight } = await openSmall(t, {
    directory: anybody,
    limits,
    arriving: { total: 20, perSender: 10 },
  })
  const slow: Dialled[] = []
  for (let account = 1; account <= 4; account += 1)
    for (let n = 0; n < 8; n += 1) slow.push(await dial(halfAnOrder(undefined, `acc-${account}-key`)))
  const cut = await until(() => {
    const refused = slow.filter(({ heard }) => heard().includes('"overloaded"'))
    return refused.length === 12 ? refused : null
  })
  assert.deepEqual(cut, slow.slice(0, 12), 'the oldest')
  assert.match(
    cut[0]!.heard(),
    /^HTTP\/1\.1 503 Service Unavailable\r\nratelimit-policy: "key";q=100000;w=100\r\nratelimit: "key";r=\d+;t=1\r\nconnection: close\r\n[\s\S]*retry-after: 1\r\n/,
  )
  const fifth = await dial(halfAnOrder(undefined, 'acc-5-key'))
  fifth.socket.write(order.slice(1))
  await until(() => fifth.heard().startsWith('HTTP/1.1 201 '))
  const { status } = await client.post('/api/v1/orders', JSON.parse(order), { key: 'acc-6-key' })
  assert.deepEqual([status, await inFlight()], [201, 0])
})

test('bodies in transit are bounded by their announced memory, too', async (t) => {
  const { dial } = await openSmall(t, { arriving: { bytes: 1_000 } })
  const slow: Dialled[] = []
  for (let n = 0; n < 3; n += 1) slow.push(await dial(orderHead(400)))
  await until(() => slow[0]!.heard().includes('"overloaded"'))
  const chunked = await dial(
    'POST /api/v1/orders HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
  )
  await until(() => slow.every(({ heard }) => heard().includes('"overloaded"')))
  chunked.socket.write(`${order.length.toString(16)}\r\n${order}\r\n0\r\n\r\n`)
  await until(() => chunked.heard().startsWith('HTTP/1.1 201 '))
})

test('a client that sends requests and reads no answers takes no slots from others', async (t) => {
  const { dial, inFlight, me } = await openSmall(t)
  const greedy = await dial(
    'GET /api/v1/me HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\n\r\n'.repeat(2_000),
  )
  greedy.socket.pause()
  const refused = await dial('GET /nowhere HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(2_000))
  refused.socket.pause()
  await until(async () => (await inFlight()) === 0)
  assert.equal(await me(), 200)
})

const slow = (door: Promise<void>, over: Partial<Route> = {}): Route => ({
  ...route({
    method: 'GET',
    path: '/api/v1/slow',
    operationId: 'getSlow',
    summary: 'Wait',
    description: 'Answers late.',
    tag: 'Service',
    access: 'public',
    customer: 'unaffected',
    writes: false,
    responses: { 200: { description: 'x', body: z.object({}), example: {} } },
    errors: [],
    handler: async () => {
      await door
      return { status: 200, body: {} }
    },
  }),
  ...over,
})

test('work for a disconnected client keeps its slot until it is done', async (t) => {
  const door = Promise.withResolvers<void>()
  const { dial, inFlight, statuses } = await openSmall(t, { routes: [...sampleRoutes, slow(door.promise)] })
  const client = await dial('GET /api/v1/slow HTTP/1.1\r\nhost: a\r\n\r\n')
  await until(async () => (await inFlight()) === 1)
  client.socket.destroy()
  await until(() => statuses().includes(499))
  assert.equal(await inFlight(), 1)
  door.resolve()
  await until(async () => (await inFlight()) === 0)
  assert.deepEqual(statuses(), [499], 'it is logged once')
})

test('a body that arrives when every slot is used is answered with 503, and its account counts once it runs', async (t) => {
  const door = Promise.withResolvers<void>()
  const { dial, inFlight, me } = await openSmall(t, {
    routes: [...sampleRoutes, slow(door.promise, { access: 'any-key', customer: 'unaffected' })],
    maxInFlightPerAccount: 1,
    limits,
  })
  const one = await dial(halfAnOrder())
  const two = await dial(halfAnOrder())
  const work = (key: string) => dial(`GET /api/v1/slow HTTP/1.1\r\nhost: a\r\nx-api-key: ${key}\r\n\r\n`)
  await work('buyer-key')
  await until(async () => (await inFlight()) === 1)
  one.socket.write(order.slice(1))
  await until(() => one.heard().startsWith('HTTP/1.1 429 '))
  await work('reseller-key')
  await until(async () => (await inFlight()) === 2)
  two.socket.write(order.slice(1))
  await until(() => two.heard().startsWith('HTTP/1.1 503 '))
  assert.equal(await me(), 503)
  door.resolve()
  await until(async () => (await inFlight()) === 0)
  assert.equal(await me(), 200)
})

test("a route with its own slots neither uses others' slots nor gives one address all of its own", async (t) => {
  const door = Promise.withResolvers<void>()
  const own = slow(door.promise, { path: '/own', atOnce: { total: 3, perAddress: 2 } })
  const { me, baseUrl, inFlight } = await openSmall(t, {
    routes: [...sampleRoutes, own],
    trusted: trustedProxies('127.0.0.1'),
  })
  const ask = async (address: string) =>
    (await fetch(`${baseUrl}/own`, { headers: { 'x-forwarded-for': address } })).status
  const held = [ask('2001:db8::1'), ask('2001:db8::2')]
  await until(async () => (await ask('2001:db8::3')) === 503)
  assert.equal(await me(), 200)
  const other = ask('203.0.113.7')
  await until(async () => (await ask('203.0.113.8')) === 503)
  assert.equal(await inFlight(), 0)
  door.resolve()
  assert.deepEqual(await Promise.all([...held, other]), [200, 200, 200])
  assert.equal(await ask('2001:db8::3'), 200)
})

test('slow bodies, however many, block no callback', async (t) => {
  const callback = slow(Promise.resolve(), {
    method: 'POST',
    path: '/own',
    rawBody: true,
    atOnce: { total: 16, perAddress: 4 },
  })
  const { dial } = await openSmall(t, {
    routes: [...sampleRoutes, callback],
    trusted: trustedProxies('127.0.0.1'),
  })
  const from = (address: string) => dial(halfAnOrder('/own', 'no-key', `x-forwarded-for: ${address}\r\n`))
  const slowly: Dialled[] = []
  for (let n = 0; n < 40; n += 1) slowly.push(await from(`203.0.113.${n >> 2}`))
  await until(() => slowly.filter(({ heard }) => heard().includes('"overloaded"')).length === 24)
  const fifth = await from('203.0.113.9')
  await until(() => fifth.heard().includes('too many bodies are on their way from this address'))
  const honest = await from('198.51.100.1')
  honest.socket.write(order.slice(1))
  await until(() => honest.heard().startsWith('HTTP/1.1 200 '))
})

test('an account has a share of the slots, whatever its requests wait for, and leaves the rest to others', async (t) => {
  const door = Promise.withResolvers<void>()
  const { dial, client, inFlight, me } = await openSmall(t, {
    routes: [...sampleRoutes, slow(door.promise, { access: 'any-key', customer: 'unaffected' })],
    maxInFlight: 4,
    maxInFlightPerAccount: 2,
    limits,
  })
  const work = 'GET /api/v1/slow HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\n\r\n'
  await dial(work)
  await dial(work)
  await until(async () => (await inFlight()) === 2)
  const refused = await client.get('/api/v1/me', { key: 'buyer-key' })
  assert.equal(refused.status, 429)
  assert.equal(refused.body.code, 'rate_limited')
  assert.match(String(refused.body.error), /2 requests of this account are in work/)
  assert.equal(refused.headers.get('retry-after'), '1')
  assert.equal(await me('reseller-key'), 200)
  assert.equal(await inFlight(), 2, 'what was refused has no place')
  door.resolve()
  await until(async () => (await inFlight()) === 0)
  assert.equal(await me(), 200)
})
