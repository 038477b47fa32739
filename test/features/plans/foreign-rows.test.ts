import assert from 'node:assert/strict'
import { test } from 'node:test'
import { done } from '../../support/app-actions.ts'
import { signedIn } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'

test('credentials of plans and rentals are returned to their owners only, whatever the read tables contain', async (t) => {
  const app = await testApp(t)
  const { client } = app
  const { pool } = app.core
  const victim = await app.customer({ cents: 100_00 })
  const thief = await app.customer({ cents: 100_00 })
  const buy = async (body: object, key = victim.key) =>
    (await done(client.post('/api/v1/orders', body, { key }))).body
  const { planId } = await buy({ product_id: 'residential-basic', quantity: 1 })
  const rent = {
    product_id: 'isp-static',
    quantity: 1,
    fulfillment_meta: { country: 'USA', period_days: 30 },
  }
  const {
    proxyIds: [proxyId],
  } = await buy(rent)
  const own = await buy(rent, thief.key)
  const plan = (await done(client.get(`/api/v1/plans/${planId}`, { key: victim.key }))).body
  const proxy = (await done(client.get(`/api/v1/proxies/${proxyId}`, { key: victim.key }))).body
  const secrets = [plan.connection.username, plan.connection.password, proxy.username, proxy.password]

  // Other tests use the same tables: they become as they were.
  const changed: (() => Promise<unknown>)[] = []
  t.after(() => Promise.all(changed.map((restore) => restore())))
  /** Changes a row of a read table with SQL. */
  const change = async (
    table: string,
    idName: string,
    id: string,
    values: Readonly<Record<string, unknown>>,
  ) => {
    const names = Object.keys(values)
    const { rows } = await pool.query(`select ${names.join()} from ${table} where ${idName} = $1`, [id])
    const set = (to: Readonly<Record<string, unknown>>) =>
      pool.query(
        `update ${table} set ${names.map((name, at) => `${name} = $${at + 2}`).join()} where ${idName} = $1`,
        [id, ...names.map((name) => to[name])],
      )
    changed.push(() => set(rows[0]))
    assert.equal((await set(values)).rowCount, 1)
  }
  await change('read.plans', 'plan_id', planId, { account_id: thief.accountId })
  await change('read.proxies', 'proxy_id', proxyId, { account_id: thief.accountId, order_id: own.orderId })
  const { key } = thief
  const answers = [
    await client.get('/api/v1/plans', { key }),
    await client.get(`/api/v1/plans/${planId}`, { key }),
    await client.post(`/api/v1/plans/${planId}/generate`, { count: 1 }, { key }),
    await client.post(`/api/v1/plans/${planId}/rotate-password`, undefined, { key }),
    await client.get('/api/v1/proxies', { key }),
    await client.get('/api/v1/proxies?format=txt', { key }),
    await client.get(`/api/v1/proxies/${proxyId}`, { key }),
    await client.post(`/api/v1/proxies/${proxyId}/replace`, { reason: 'low_speed' }, { key }),
  ]
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 404, 404, 404, 200, 200, 404, 404],
  )
  const browser = await signedIn(app, thief.accountId)
  const pages = await Promise.all(
    [
      `/console/plans/${planId}`,
      `/console/plans/${planId}/lines`,
      '/console/addresses',
      `/console/addresses/${proxyId}`,
    ].map(async (path) => (await browser.get(path)).html),
  )
  const shown = [...answers.map(({ text }) => text), ...pages].join('\n')
  for (const secret of secrets) assert.ok(!shown.includes(secret), secret)
  assert.ok(shown.includes(own.proxyIds[0]), 'their own rental is listed')

  // A price belongs to the plan's product, and to the rented item.
  const premium = await buy({ product_id: 'residential-premium', quantity: 1 }, key)
  // Once it is read, the read tables have it: nothing overwrites the change.
  await done(client.get(`/api/v1/plans/${premium.planId}`, { key }))
  await change('read.plans', 'plan_id', premium.planId, { product_id: 'residential-basic' })
  await change('read.proxies', 'proxy_id', own.proxyIds[0], { product_id: 'ipv4-datacenter' })
  const before = await app.balance(key)
  const cheaper = [
    await client.post(`/api/v1/plans/${premium.planId}/topup`, { quantity: 1 }, { key }),
    await client.post('/api/v1/proxies/extend', { proxy_ids: own.proxyIds, period_days: 30 }, { key }),
  ]
  assert.deepEqual(
    cheaper.map(({ status }) => status),
    [404, 404],
  )
  assert.equal(await app.balance(key), before)

  // The owner is found again once the rows are as they were.
  await pool.query('update read.plans set account_id = $1 where plan_id = $2', [victim.accountId, planId])
  const again = (await done(client.get(`/api/v1/plans/${planId}`, { key: victim.key }))).body
  assert.equal(again.connection.password, plan.connection.password)
})
