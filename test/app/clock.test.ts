import assert from 'node:assert/strict'
import { test } from 'node:test'
import { asOperator } from '../support/demo-env.ts'
import { call } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const body = { product_id: 'residential-premium', quantity: 5 }

test('a process whose clock is wrong', async (t) => {
  const clock = { aheadMs: 0 }
  const systemClock = () => Date.now() + clock.aheadMs
  const { baseUrl, core, demo } = await testApp(t, { own: true, systemClock })
  const { key } = demo.buyer
  const order = () => call(`${baseUrl}/api/v1/orders`, key, { body })
  const refuses = async () => {
    const refused = await order()
    assert.deepEqual([refused.status, refused.body.code], [503, 'overloaded'])
  }

  for (const [aheadMs, problem] of [
    [3_000, /ms ahead of Postgres's/],
    [-3_000, /ms behind Postgres's/],
  ] as const)
    await t.test(`by ${aheadMs} ms is not ready and refuses orders until the clock is right`, async () => {
      clock.aheadMs = aheadMs
      await core.clockGuard.check()
      const ready = await fetch(`${baseUrl}/readyz`, asOperator)
      assert.equal(ready.status, 503)
      assert.match(JSON.stringify(await ready.json()), problem)
      await refuses()
      assert.equal((await call(`${baseUrl}/api/v1/wallet`, key)).status, 200)

      clock.aheadMs = 0
      await core.clockGuard.check()
      assert.equal((await fetch(`${baseUrl}/readyz`)).status, 200)
      assert.equal((await order()).status, 201)
    })

  await t.test('by a sudden jump decides nothing before it compares the clock again', async () => {
    // A day, after which the cap of a key would be forgotten and rentals would end.
    clock.aheadMs = 86_400_000
    await refuses()
    await until(() => /ahead of Postgres's/.test(core.clockGuard.problem() ?? ''))
    clock.aheadMs = 0
    // At once: an order could come after the next comparison.
    assert.notEqual(core.clockGuard.problem(), null)
    await until(() => core.clockGuard.problem() === null)
    assert.equal((await order()).status, 201)
  })
})

test('a development offset is refused beside a log that is not of a demo', async (t) => {
  const { core, env } = await testApp(t, { own: true })
  const list = () => operate(['accounts', 'list'], { ...env, FAREBOX_CLOCK_OFFSET_MS: '86400000' })
  assert.equal((await list()).code, 0)
  await core.pool.query('delete from work.demo')
  const refused = await list()
  assert.equal(refused.code, 1)
  assert.match(refused.err, /FAREBOX_CLOCK_OFFSET_MS is for a demo only, and this database has none/)
})

test('a development offset moves the time of the service and is not a wrong clock', async (t) => {
  const settings = { FAREBOX_CLOCK_OFFSET_MS: String(40 * 86_400_000) }
  const { baseUrl, demo } = await testApp(t, { own: true, settings })
  const placed = await call(`${baseUrl}/api/v1/orders`, demo.buyer.key, { body })
  assert.equal(placed.status, 201)
  assert.ok(Date.parse(placed.body.createdAt) > Date.now() + 39 * 86_400_000)
})
