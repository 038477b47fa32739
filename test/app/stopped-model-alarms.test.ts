import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plans } from '../../projections/plans.ts'
import { webhookCauses } from '../../projections/webhook-causes.ts'
import { staffBrowser } from '../support/console.ts'
import { operate } from '../support/operator.ts'
import { breakModel, withStoppedModel } from '../support/stopped-model.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const metricsToken = 'a5f1c9e07b3d48268e4f60c2d19b7a35'

test('a stopped read model is named by every alarm, and only what needs it is refused', async (t) => {
  const app = await testApp(t, { own: true, settings: { FAREBOX_METRICS_TOKEN: metricsToken } })
  const headers = { authorization: `Bearer ${metricsToken}` }
  const measured = async (path: string) => (await fetch(`${app.baseUrl}${path}`, { headers })).text()
  const operator = await staffBrowser(app, ['operator'])
  const gauge = 'farebox_read_model_stopped{group="hot",model="plans"} 1'
  await withStoppedModel(t, app, plans, async () => {
    const refused = await app.buyer.get('/api/v1/plans')
    assert.equal(refused.status, 503)
    assert.match(refused.body.error, /^the read model plans is stopped/)
    assert.equal(refused.headers.get('retry-after'), '30')
    assert.equal((await app.buyer.get('/api/v1/wallet')).status, 200)

    const ready = await fetch(`${app.baseUrl}/readyz`, { headers })
    assert.equal(ready.status, 200)
    assert.match(await ready.text(), /the read model plans is stopped at position \d+: .*a field is missing/)
    assert.ok((await measured('/metrics')).includes(gauge))
    const { html } = await operator.get('/console/staff')
    assert.match(html, /href="\/console\/operator\/projections\/hot">the read model plans is stopped/)
    assert.match(
      (await operator.get('/console/operator/projections')).html,
      /the read model plans is stopped/,
    )
    const { findings } = JSON.parse((await operate(['doctor', '--json'], app.env)).out)
    const found = findings.find(({ check }: { check: string }) => check === 'read models (hot)')
    assert.equal(found.state, 'wrong')
    assert.match(found.found, /^the read model plans is stopped/)
    const listed = await app.cli('plans', 'list')
    assert.deepEqual([listed.code, listed.json.code], [1, 'overloaded'])
    assert.match(listed.json.error, /^the read model plans is stopped at .*; upgrade to a version/)
    assert.equal((await app.cli('orders', 'list')).code, 0)
    const verified = await app.cli('ledger', 'verify')
    assert.match(verified.out, /the read model plans is stopped/)
  })
  assert.ok(!(await measured('/metrics')).includes(gauge))

  // The only model of its group: the group waits at the event.
  const restore = breakModel(webhookCauses)
  t.after(restore)
  await app.credit(app.demo.buyer.accountId, 100_00)
  await until(async () =>
    /webhooks: read model webhook-causes cannot take .*a field is missing/.test(await measured('/readyz')),
  )
  restore()
  await until(async () => !(await measured('/readyz')).includes('webhook-causes'), { timeoutMs: 60_000 })
  assert.equal((await app.buyer.get('/api/v1/plans')).status, 200)
  await app.verified()
})
