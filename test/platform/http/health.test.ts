import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get } from 'node:http'
import { describe, test } from 'node:test'
import { Registry } from 'prom-client'
import { localOperatorAccess, operatorTokenAccess } from '../../../src/platform/http/auth.ts'
import {
  createHttpMetrics,
  registerGauge,
  registerRuntimeMetrics,
} from '../../../src/platform/http/gauges.ts'
import { healthRoutes, type Probe } from '../../../src/platform/http/health.ts'
import { sampleRoutes, sampleServer } from './sample.ts'

const probe = (name: string, check: Probe['check']): Probe => ({ name, check })
const fine = probe('log', async () => null)
const open = { registry: new Registry(), mayRead: () => true }
const token = 's3cret-s3cret-s3cret'

describe('Health', () => {
  test('/healthz answers whatever is broken', async (t) => {
    const routes = healthRoutes([probe('log', async () => 'gone')], open)
    const { client } = await sampleServer(t, { routes })
    assert.deepEqual((await client.get('/healthz')).body, { status: 'ok' })
  })

  test('/readyz is 200 only when every probe succeeds', async (t) => {
    const { client } = await sampleServer(t, {
      routes: healthRoutes([fine, probe('projections', async () => null)], open),
    })
    const { status, body } = await client.get('/readyz')
    assert.deepEqual([status, body], [200, { status: 'ready', checks: { log: 'ok', projections: 'ok' } }])
  })

  test('/readyz names what is not ready, also a probe that throws or never answers', async (t) => {
    const probes = [
      fine,
      probe('projections', async () => '1200 events behind'),
      probe('database', async () => {
        throw new Error('connection refused')
      }),
      probe('clock', () => new Promise(() => {})),
    ]
    const { client } = await sampleServer(t, { routes: healthRoutes(probes, open) })
    const { status, body } = await client.get('/readyz')
    assert.deepEqual(
      [status, body.code, body.error],
      [503, 'overloaded', 'not ready: projections, database, clock'],
    )
    assert.deepEqual(body.checks, {
      log: 'ok',
      projections: '1200 events behind',
      database: 'connection refused',
      clock: 'no answer within 2000 ms',
    })
  })

  test('a probe that does not answer is not started again before it ends', async (t) => {
    const hanging = Promise.withResolvers<null>()
    let runs = 0
    const slow = probe('queues', () => {
      runs += 1
      return hanging.promise
    })
    const { client } = await sampleServer(t, { routes: healthRoutes([slow], open) })
    for (let poll = 0; poll < 3; poll += 1) assert.equal((await client.get('/readyz')).status, 503)
    assert.equal(runs, 1)
    hanging.resolve(null)
    assert.equal((await client.get('/readyz')).status, 200)
  })

  test('probes are answered while limits and load refuse everything else', async (t) => {
    const taken = { waitS: 1, remaining: 0, fullAfterS: 1 }
    const limits = { perAddress: { take: () => 1 }, perKey: { policy: 'q=1;w=1', count: () => taken } }
    const routes = [...healthRoutes([fine], open), ...sampleRoutes]
    const { client } = await sampleServer(t, { routes, limits, maxInFlight: 0 })
    assert.equal((await client.get('/healthz')).status, 200)
    assert.equal((await client.get('/readyz')).status, 200)
    assert.equal((await client.get('/api/v1/me')).status, 503)
  })
})

describe('Metrics', () => {
  test('count requests by their template, never by their path', async (t) => {
    const registry = new Registry()
    const routes = [...healthRoutes([], { registry, mayRead: () => true }), ...sampleRoutes]
    const { client, baseUrl } = await sampleServer(t, { routes, metrics: createHttpMetrics(registry) })
    for (const id of ['ord_1', 'ord_2']) await client.get(`/api/v1/orders/${id}`, { key: 'buyer-key' })
    await client.get('/no/such/path')
    const text = await (await fetch(`${baseUrl}/metrics`)).text()
    for (const status of [200, 404])
      assert.match(
        text,
        new RegExp(
          `farebox_http_request_duration_seconds_count\\{method="GET",route="/api/v1/orders/\\{id\\}",status="${status}"\\} 1`,
        ),
      )
    assert.match(text, /route="unknown",status="404"\} 1/)
    assert.ok(!text.includes('ord_1') && !text.includes('/no/such'))
    assert.match(text, /farebox_http_requests_in_flight 0\n/, 'a probe is not counted')
  })

  test('show how long requests held the main thread, by route, and the longest since the last scrape', async (t) => {
    const registry = new Registry()
    const spin = (ms: number): void => {
      for (const end = performance.now() + ms; performance.now() < end; );
    }
    const spinning = async () => {
      spin(60)
      return { status: 200, body: { email: 'a' } }
    }
    const slow = sampleRoutes.map((each) =>
      each.operationId === 'getMe' ? { ...each, handler: spinning as never } : each,
    )
    const { client } = await sampleServer(t, { routes: slow, metrics: createHttpMetrics(registry) })
    await client.get('/api/v1/orders', { key: 'buyer-key' })
    await client.get('/api/v1/me', { key: 'buyer-key' })
    const longest = async () => {
      const text = await registry.metrics()
      return [Number(/^farebox_http_main_thread_longest_seconds (\S+)$/m.exec(text)?.[1]), text] as const
    }
    const [seconds, text] = await longest()
    assert.ok(seconds >= 0.06, String(seconds))
    const counted = (route: string, le: string): number =>
      Number(
        text
          .split('\n')
          .find(
            (line) =>
              line.startsWith('farebox_http_main_thread_seconds_bucket') &&
              line.includes(`le="${le}",method="GET",route="${route}"`),
          )
          ?.split(' ')
          .at(-1),
      )
    assert.deepEqual([counted('/api/v1/me', '0.05'), counted('/api/v1/me', '+Inf')], [0, 1])
    assert.equal(counted('/api/v1/orders', '+Inf'), 1)
    assert.equal((await longest())[0], 0)
  })

  test('read gauges when they are scraped', async () => {
    const registry = new Registry()
    let lag = 3
    registerGauge(registry, { name: 'farebox_lag', help: 'x', read: () => lag })
    const stop = registerRuntimeMetrics(registry)
    lag = 7
    const text = await registry.metrics()
    stop()
    assert.match(text, /^farebox_lag 7$/m)
    assert.match(text, /^farebox_event_loop_delay_p99_seconds \d/m)
    assert.match(text, /^farebox_event_loop_delay_longest_seconds \d/m)
    assert.match(text, /^farebox_resident_memory_bytes \d/m)
  })

  test('and the details of /readyz need the token, from any address', async (t) => {
    const broken = probe('database', async () => 'connect ECONNREFUSED 10.1.2.3:5432')
    const routes = healthRoutes([fine, broken], {
      registry: new Registry(),
      mayRead: operatorTokenAccess(token),
    })
    const { baseUrl } = await sampleServer(t, { routes })
    const seen = async (headers: Record<string, string>) => {
      const ready = await fetch(`${baseUrl}/readyz`, { headers })
      const { requestId, ...body } = (await ready.json()) as Record<string, unknown>
      assert.equal(ready.status, 503)
      return [(await fetch(`${baseUrl}/metrics`, { headers })).status, body]
    }
    const forwarded = { 'x-forwarded-for': '198.51.100.1' }
    for (const headers of [
      {},
      forwarded,
      { authorization: 'Bearer wrong' },
      { authorization: token },
    ] as Record<string, string>[])
      assert.deepEqual(await seen(headers), [404, { error: 'not ready', code: 'overloaded' }])
    const details = {
      error: 'not ready: database',
      code: 'overloaded',
      checks: { log: 'ok', database: 'connect ECONNREFUSED 10.1.2.3:5432' },
    }
    const authorization = `Bearer ${token}`
    assert.deepEqual(await seen({ authorization }), [200, details])
    assert.deepEqual(await seen({ authorization, ...forwarded }), [200, details])
  })

  test('are unavailable without a configured token, also for this machine: a proxy may run on it', async (t) => {
    const routes = healthRoutes([fine], { registry: new Registry(), mayRead: operatorTokenAccess(null) })
    const { baseUrl } = await sampleServer(t, { routes })
    for (const headers of [{}, { authorization: 'Bearer null' }, { authorization: 'Bearer ' }])
      assert.equal((await fetch(`${baseUrl}/metrics`, { headers: headers as never })).status, 404)
    assert.deepEqual(await (await fetch(`${baseUrl}/readyz`)).json(), { status: 'ready' })
  })

  test("on a separate listener need no token, and are not sent through a proxy or to another site's page", async (t) => {
    const routes = healthRoutes([fine], { registry: new Registry(), mayRead: localOperatorAccess })
    const { port } = await sampleServer(t, { routes })
    const status = async (headers: Record<string, string>): Promise<number> => {
      const request = get({ port, host: '127.0.0.1', path: '/metrics', headers, agent: false })
      const [answer] = await once(request, 'response')
      answer.resume()
      return answer.statusCode
    }
    for (const host of ['127.0.0.1', `localhost:${port}`, `[::1]:${port}`])
      assert.equal(await status({ host }), 200)
    for (const host of ['rebound.example', `127.0.0.1.example:${port}`])
      assert.equal(await status({ host }), 404)
    for (const name of ['x-forwarded-for', 'forwarded', 'via', 'x-real-ip', 'x-forwarded-proto'])
      assert.equal(await status({ [name]: '127.0.0.1' }), 404, name)
  })
})
