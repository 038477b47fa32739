import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Registry } from 'prom-client'
import { z } from 'zod'
import { createHttpMetrics } from '../../src/http/http-metrics.ts'
import { createLogger } from '../../src/http/logging.ts'
import { createRateLimiter } from '../../src/http/rate-limit.ts'
import { route } from '../../src/http/route.ts'
import type { HttpServerOptions } from '../../src/http/server.ts'
import { until } from '../support/until.ts'
import { sampleRoutes, sampleServer } from './sample.ts'

/** A server with two places, and what it says of itself. */
const openSmall = async (t: TestContext, over: Partial<HttpServerOptions> = {}) => {
  const registry = new Registry()
  const lines: string[] = []
  const server = await sampleServer(t, {
    maxInFlight: 2,
    metrics: createHttpMetrics(registry),
    logger: createLogger('info', { write: (line) => void lines.push(line) }),
    ...over,
  })
  const inFlight = async () => {
    const { values } = await registry.getSingleMetric('farebox_http_requests_in_flight')!.get()
    return values[0]!.value
  }
  const dial = async (bytes: string): Promise<Socket> => {
    const socket = connect(server.port, '127.0.0.1')
    t.after(() => socket.destroy())
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    socket.write(bytes)
    return socket
  }
  const me = async () => (await server.client.get('/api/v1/me', { key: 'buyer-key' })).status
  const statuses = () => lines.map((line) => JSON.parse(line).status)
  return { ...server, inFlight, dial, me, statuses }
}

/** An order of which the last bytes do not come. */
const halfAnOrder = (path = '/api/v1/orders') =>
  `POST ${path} HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{`

const leaving: Readonly<Record<string, (socket: Socket) => unknown>> = {
  resets: (socket) => socket.resetAndDestroy(),
  'hangs up': (socket) => socket.destroy(),
  'says that no more comes': (socket) => socket.end(),
}
for (const [how, leave] of Object.entries(leaving))
  test(`a client that ${how} in the middle of its body gives its place back, and is logged`, async (t) => {
    const { dial, inFlight, me, statuses } = await openSmall(t)
    const clients = [await dial(halfAnOrder()), await dial(halfAnOrder())]
    await until(async () => (await inFlight()) === 2)
    assert.equal(await me(), 503)
    for (const socket of clients) leave(socket)
    await until(async () => (await inFlight()) === 0)
    assert.equal(await me(), 200)
    await until(() => statuses().length === 4)
    assert.deepEqual(statuses().sort(), [200, 499, 499, 503])
  })

test('a client that sends requests and reads no answers takes no places from others', async (t) => {
  const { dial, inFlight, me } = await openSmall(t)
  const greedy = await dial(
    'GET /api/v1/me HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\n\r\n'.repeat(2_000),
  )
  greedy.pause()
  const refused = await dial('GET /nowhere HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(2_000))
  refused.pause()
  await until(async () => (await inFlight()) === 0)
  assert.equal(await me(), 200)
})

const slow = (door: Promise<void>) =>
  route({
    method: 'GET',
    path: '/api/v1/slow',
    operationId: 'getSlow',
    summary: 'Wait',
    description: 'Answers late.',
    tag: 'Service',
    access: 'public',
    writes: false,
    responses: { 200: { description: 'x', body: z.object({}), example: {} } },
    errors: [],
    handler: async () => {
      await door
      return { status: 200, body: {} }
    },
  })

test('work for a client that left keeps its place until it is done', async (t) => {
  const door = Promise.withResolvers<void>()
  const { dial, inFlight, statuses } = await openSmall(t, { routes: [...sampleRoutes, slow(door.promise)] })
  const client = await dial('GET /api/v1/slow HTTP/1.1\r\nhost: a\r\n\r\n')
  await until(async () => (await inFlight()) === 1)
  client.destroy()
  await until(() => statuses().includes(499))
  assert.equal(await inFlight(), 1)
  door.resolve()
  await until(async () => (await inFlight()) === 0)
  assert.deepEqual(statuses(), [499], 'it is logged once')
})

test('a route with places of its own neither takes those of others nor gives one address all of its own', async (t) => {
  const own = {
    ...sampleRoutes.find(({ operationId }) => operationId === 'createOrder')!,
    path: '/own',
    atOnce: { total: 3, perAddress: 2 },
  }
  const { dial, me, client } = await openSmall(t, { routes: [...sampleRoutes, own] })
  const stalled = [await dial(halfAnOrder('/own')), await dial(halfAnOrder('/own'))]
  const ask = async () =>
    (
      await client.post(
        '/own',
        { product_id: 'residential', quantity: 5 },
        { key: 'buyer-key', headers: { 'x-forwarded-for': '203.0.113.7' } },
      )
    ).status
  await until(async () => (await ask()) === 503)
  assert.equal(await me(), 200)
  for (const socket of stalled) socket.destroy()
  await until(async () => (await ask()) === 201)
})

test('an account has a share of the places, whatever its requests wait for, and leaves the rest to others', async (t) => {
  const many = createRateLimiter({ burst: 1_000, perSecond: 1_000 }, () => 0)
  const { dial, client, inFlight, me } = await openSmall(t, {
    maxInFlight: 4,
    maxInFlightPerAccount: 2,
    limits: { perAddress: many, perKey: many },
  })
  const stalled = [await dial(halfAnOrder()), await dial(halfAnOrder())]
  await until(async () => (await inFlight()) === 2)
  const refused = await client.get('/api/v1/me', { key: 'buyer-key' })
  assert.equal(refused.status, 429)
  assert.equal(refused.body.code, 'rate_limited')
  assert.match(String(refused.body.error), /2 requests of this account are in work/)
  assert.equal(refused.headers.get('retry-after'), '1')
  assert.equal((await client.get('/api/v1/me', { key: 'reseller-key' })).status, 200)
  assert.equal(await inFlight(), 2, 'what was refused has no place')
  stalled[0]?.destroy()
  await until(async () => (await me()) === 200)
  stalled[1]?.destroy()
  await until(async () => (await inFlight()) === 0)
})
