import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Customer } from '../support/app-actions.ts'
import { operate } from '../support/operator.ts'
import { testApp } from '../support/test-app.ts'

const cents = 9_000_000

test('all read models are rebuilt under HTTP load: no request fails, and no client reads data older than its own write', async (t) => {
  const app = await testApp(t, { own: true, audits: true })
  const { client, env, core, auditor } = app
  assert.ok(await auditor!.core.projecting.caughtUp(60_000))
  const failures: string[] = []
  let stopped = false
  let requests = 0

  const get = async (path: string, key: string) => {
    requests += 1
    const called = await client.get(path, { key })
    if (called.status !== 200) failures.push(`${path} ${called.status} ${called.text}`)
    return called.body
  }
  /** Buys, and reads its own wallet, order and list after each purchase. */
  const buyer = async ({ key }: Customer): Promise<number> => {
    let bought = 0
    let balance = cents
    while (!stopped) {
      requests += 1
      const placed = await client.post(
        '/api/v1/orders',
        { product_id: 'residential-premium', quantity: 5 },
        {
          key,
          headers: { 'Idempotency-Key': randomUUID() },
        },
      )
      if (placed.status !== 201) {
        failures.push(`order ${placed.status} ${placed.text}`)
        continue
      }
      bought += 1
      balance -= placed.body.amountCents
      const wallet = await get('/api/v1/wallet', key)
      if (wallet?.balanceCents !== balance) failures.push(`read ${wallet?.balanceCents}, own ${balance}`)
      const orders = await get('/api/v1/orders?limit=1', key)
      if (orders?.total !== bought) failures.push(`read ${orders?.total} orders, placed ${bought}`)
      const order = await get(`/api/v1/orders/${placed.body.orderId}`, key)
      if (order?.status !== 'completed') failures.push(`read ${order?.status}`)
    }
    return bought
  }
  /** Reads what others change. */
  const reader = async ({ key }: Customer): Promise<void> => {
    while (!stopped)
      for (const path of ['/api/v1/products', '/api/v1/plans', '/api/v1/proxies']) await get(path, key)
  }
  const customers = await Promise.all([1, 2, 3, 4].map(() => app.customer({ cents })))
  const [one, two, three, four] = customers as [Customer, Customer, Customer, Customer]
  const load = Promise.all([buyer(one), buyer(two), buyer(three), reader(four)])
  t.after(() => {
    stopped = true
    return load
  })

  const rebuild = async (...names: string[]) => {
    const { code, out, err } = await operate(['projections', 'rebuild', ...names, '--json'], env)
    assert.equal(code, 0, err)
    return JSON.parse(out).results
  }
  const before = requests
  for (let round = 0; round < 2; round += 1)
    for (const result of await rebuild('all')) {
      assert.equal(result.exchanged, true)
      assert.deepEqual(result.differences, [])
      assert.ok(result.compared.length > 0)
    }
  // A row that was changed outside the log is reported and repaired, under the same load.
  await core.pool.query('update read.balances set held_micros = 5 where account_id = $1', [four.accountId])
  const results = await rebuild('balances')
  const differences = results.flatMap((result: { differences: unknown[] }) => result.differences)
  assert.deepEqual(differences, [
    { table: 'balances', key: { account_id: four.accountId }, column: 'held_micros', live: 5, rebuilt: 0 },
  ])
  stopped = true
  const [bought] = await load
  assert.deepEqual(failures, [])
  assert.ok(bought > 5 && requests - before > 100, `${requests - before} requests met the rebuilds`)
  const { rows } = await core.pool.query('select from read.balances where held_micros = 5')
  assert.equal(rows.length, 0)
})
