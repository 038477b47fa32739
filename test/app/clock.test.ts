import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { readConfig } from '../../src/app/config.ts'
import { openFarebox } from '../../src/app/start.ts'
import { atEnd } from '../support/cleanup.ts'
import { asOperator, metricsToken } from '../support/demo-env.ts'
import { call, dataDirectory } from '../support/farebox.ts'
import { testDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const open = async (t: TestContext, clock: { aheadMs: number }, settings: NodeJS.ProcessEnv = {}) => {
  const { url } = await testDatabase(t)
  const farebox = await openFarebox({
    config: readConfig({
      PORT: '0',
      DATABASE_URL: url,
      FAREBOX_DATA: await dataDirectory(t),
      FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
      FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
      FAREBOX_METRICS_TOKEN: metricsToken,
      ...settings,
    }),
    roles: ['http', 'projections', 'reactors'],
    systemClock: () => Date.now() + clock.aheadMs,
    monotonicMs: () => performance.now(),
    logger: pino({ level: 'silent' }),
    kill: () => assert.fail('unexpected crash'),
  })
  atEnd(t, () => farebox.close())
  return farebox
}

const body = { product_id: 'residential-premium', quantity: 5 }

for (const aheadMs of [3_000, -3_000])
  test(`a process whose clock is ${aheadMs} ms wrong is not ready and refuses orders until the clock is right`, async (t) => {
    const clock = { aheadMs: 0 }
    const { baseUrl, core, demo } = await open(t, clock)
    const key = demo!.demo.buyer.key
    clock.aheadMs = aheadMs
    await core.clockGuard.check()

    const ready = await fetch(`${baseUrl}/readyz`, asOperator)
    assert.equal(ready.status, 503)
    assert.match(
      JSON.stringify(await ready.json()),
      aheadMs > 0 ? /ms ahead of Postgres's/ : /ms behind Postgres's/,
    )
    const refused = await call(`${baseUrl}/api/v1/orders`, key, { body })
    assert.deepEqual([refused.status, refused.body.code], [503, 'overloaded'])
    assert.equal((await call(`${baseUrl}/api/v1/wallet`, key)).body.balanceCents, 100_000)

    clock.aheadMs = 0
    await core.clockGuard.check()
    assert.equal((await fetch(`${baseUrl}/readyz`)).status, 200)
    assert.equal((await call(`${baseUrl}/api/v1/orders`, key, { body })).status, 201)
  })

test('a process whose clock jumps decides nothing before it compares the clock again', async (t) => {
  const clock = { aheadMs: 0 }
  const { baseUrl, core, demo } = await open(t, clock)
  const key = demo!.demo.buyer.key
  const order = () => call(`${baseUrl}/api/v1/orders`, key, { body })
  await core.clockGuard.check()
  // A day, after which the cap of a key would be forgotten and rentals would end.
  clock.aheadMs = 86_400_000
  const refused = await order()
  assert.deepEqual([refused.status, refused.body.code], [503, 'overloaded'])

  await until(() => /ahead of Postgres's/.test(core.clockGuard.problem() ?? ''))
  clock.aheadMs = 0
  // At once: an order could come after the next comparison.
  assert.notEqual(core.clockGuard.problem(), null)
  await until(() => core.clockGuard.problem() === null)
  assert.equal((await order()).status, 201)
})

test('a development offset moves the time of the service and is not a wrong clock', async (t) => {
  const { baseUrl, demo } = await open(
    t,
    { aheadMs: 0 },
    { FAREBOX_CLOCK_OFFSET_MS: String(40 * 86_400_000) },
  )
  const placed = await call(`${baseUrl}/api/v1/orders`, demo!.demo.buyer.key, { body })
  assert.equal(placed.status, 201)
  assert.ok(Date.parse(placed.body.createdAt) > Date.now() + 39 * 86_400_000)
})
