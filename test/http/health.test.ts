import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Registry } from 'prom-client'
import { healthRoutes, type Probe } from '../../src/http/health.ts'
import { createHttpMetrics } from '../../src/http/http-metrics.ts'
import { registerGauge, registerRuntimeMetrics } from '../../src/http/runtime-metrics.ts'
import { sampleRoutes, sampleServer } from './sample.ts'

const probe = (name: string, check: Probe['check']): Probe => ({ name, check })
const fine = probe('log', async () => null)
const open = { registry: new Registry(), token: null }

describe('Health', () => {
  test('/healthz answers whatever is broken', async (t) => {
    const routes = healthRoutes([probe('log', async () => 'gone')], open)
    const { client } = await sampleServer(t, { routes })
    assert.deepEqual((await client.get('/healthz')).body, { status: 'ok' })
  })

  test('/readyz is 200 only when every probe holds', async (t) => {
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

  test('probes are answered while limits and load refuse everything else', async (t) => {
    const limits = { perAddress: { take: () => 1 }, perKey: { take: () => 1 } }
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
    const routes = [...healthRoutes([], { registry, token: null }), ...sampleRoutes]
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
    assert.match(text, /^farebox_resident_memory_bytes \d/m)
  })

  test('are shown without a token to this machine alone, and not through a proxy on it', async (t) => {
    const { baseUrl } = await sampleServer(t, { routes: healthRoutes([], open) })
    const status = async (headers: Record<string, string>) =>
      (await fetch(`${baseUrl}/metrics`, { headers })).status
    assert.equal(await status({}), 200)
    assert.equal(await status({ 'x-forwarded-for': '127.0.0.1' }), 404)
    assert.equal(await status({ forwarded: 'for=127.0.0.1' }), 404)
  })

  test('are shown with the token, where there is one, and only with it', async (t) => {
    const { baseUrl } = await sampleServer(t, {
      routes: healthRoutes([], { registry: new Registry(), token: 's3cret' }),
    })
    const status = async (headers: Record<string, string>) =>
      (await fetch(`${baseUrl}/metrics`, { headers })).status
    assert.equal(await status({ authorization: 'Bearer s3cret', 'x-forwarded-for': '198.51.100.1' }), 200)
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: 's3cret' }])
      assert.equal(await status(headers as never), 404)
  })
})
