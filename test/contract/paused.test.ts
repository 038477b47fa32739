import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../support/test-app.ts'

const orders = '/api/v1/orders'
const plan = { product_id: 'residential-premium', quantity: 1 }

test('no handler writes a read model: orders continue while projections are paused, and no read is outdated', async (t) => {
  const { buyer, farebox } = await testApp(t, { own: 'file' })
  const { projecting, core } = farebox
  const rows = async () => {
    const tables = ['read.orders', 'read.plans', 'read.proxies', 'read.balances']
    const counts = tables.map(
      (table) => `(select coalesce(md5(string_agg(r::text, '|' order by r::text)), '')
      from ${table} r)`,
    )
    return (await core.pool.query(`select ${counts.join(', ')}`)).rows
  }
  const first = await buyer.post(orders, plan)
  const before = (await buyer.get('/api/v1/wallet')).body.balanceCents
  assert.equal(before, first.body.balanceCents)

  await projecting.pause()
  const folded = await rows()
  const placed = await buyer.post(orders, plan, { headers: { 'Idempotency-Key': 'paused' } })
  assert.equal(placed.status, 201, placed.text)
  assert.equal(placed.body.balanceCents, before - placed.body.amountCents)
  const again = await buyer.post(orders, plan, { headers: { 'Idempotency-Key': 'paused' } })
  assert.deepEqual([again.status, again.body], [200, placed.body], 'a retry needs no read model')
  const dedicated = await buyer.post(orders, {
    product_id: 'isp-static',
    quantity: 2,
    fulfillment_meta: { country: 'USA', period_days: 30 },
  })
  assert.equal(dedicated.status, 201, dedicated.text)
  assert.deepEqual(await rows(), folded, 'a handler wrote a read table')

  const reads = [
    '/api/v1/wallet',
    '/api/v1/wallet/transactions',
    orders,
    `${orders}/${placed.body.orderId}`,
    `${orders}/${first.body.orderId}`,
    '/api/v1/plans',
    `/api/v1/plans/${placed.body.planId}`,
    '/api/v1/proxies',
    '/api/v1/products/isp-static/options',
  ]
  const startedMs = performance.now()
  const answers = await Promise.all(reads.map((path) => buyer.get(path)))
  const tookMs = performance.now() - startedMs
  for (const [at, { status, body, headers }] of answers.entries()) {
    assert.deepEqual([status, body.code], [503, 'overloaded'], reads[at])
    assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  }
  assert.ok(tookMs < 20_000, `a read that cannot be answered is refused in bounded time, not in ${tookMs} ms`)

  // A waiting read is answered as soon as the awaited events are folded.
  const waiting = buyer.get(`${orders}/${placed.body.orderId}`)
  projecting.resume()
  const read = await waiting
  assert.deepEqual([read.status, read.body], [200, placed.body])
  const { body } = await buyer.get('/api/v1/wallet')
  assert.equal(body.balanceCents, dedicated.body.balanceCents)
  assert.equal((await buyer.get('/api/v1/proxies')).body.total, 2)
})

test('money that an operator moves in another process is never read outdated', async (t) => {
  const { buyer, credit, farebox, demo } = await testApp(t, { own: 'file' })
  const { projecting } = farebox
  await projecting.pause()
  await credit(demo.buyer.accountId, 500)
  assert.equal((await buyer.get('/api/v1/wallet')).status, 503)
  projecting.resume()
  assert.equal((await buyer.get('/api/v1/wallet')).body.balanceCents, 100_500)
})
