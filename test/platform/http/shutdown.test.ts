import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { Registry } from 'prom-client'
import { createHttpMetrics } from '../../../src/platform/http/gauges.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { createHttpServer, shutDown } from '../../../src/platform/http/server.ts'
import { sampleCustomerId, sampleDirectory, sampleRoutes } from './sample.ts'

/** A server whose requests wait for a gate after they have arrived. */
const gatedServer = async () => {
  const gate = Promise.withResolvers<void>()
  const arrived = Promise.withResolvers<void>()
  const app = createHttpServer({
    routes: sampleRoutes,
    customerIdOf: sampleCustomerId,
    directory: {
      byKey: async (key, address) => {
        arrived.resolve()
        await gate.promise
        return sampleDirectory.byKey(key, address)
      },
    },
    logger: createLogger('silent'),
    metrics: createHttpMetrics(new Registry()),
    limits: null,
    monotonicMs: () => performance.now(),
  })
  const baseUrl = await app.listen({ host: '127.0.0.1', port: 0 })
  return { app, baseUrl, gate, arrived }
}

describe('A shutdown', () => {
  test('finishes running requests, accepts no new connection and closes idle ones', {
    timeout: 10_000,
  }, async () => {
    const { app, baseUrl, gate, arrived } = await gatedServer()
    const idle = connect(Number(new URL(baseUrl).port), '127.0.0.1')
    await once(idle, 'connect')
    const idleEnds = once(idle, 'close')
    idle.resume()
    const running = fetch(`${baseUrl}/api/v1/me`, { headers: { 'x-api-key': 'buyer-key' } })
    await arrived.promise
    const down = shutDown(app, 5_000)
    await assert.rejects(fetch(`${baseUrl}/api/v1/me`))
    gate.resolve()
    const response = await running
    assert.equal(response.status, 200)
    assert.deepEqual(await response.json(), { email: 'buyer@example.com' })
    assert.equal(await down, true)
    await idleEnds
  })

  test('closes connections that have not ended in time, and logs it', { timeout: 10_000 }, async () => {
    const { app, baseUrl, arrived, gate } = await gatedServer()
    const running = fetch(`${baseUrl}/api/v1/me`, { headers: { 'x-api-key': 'buyer-key' } })
    const cut = assert.rejects(running)
    await arrived.promise
    assert.equal(await shutDown(app, 50), false)
    await cut
    gate.resolve()
  })
})
