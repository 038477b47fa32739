import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../../support/test-app.ts'

test("orders show prints each refund's time and its reference", async (t) => {
  const app = await testApp(t)
  const { cli } = app
  const { key, accountId } = app.demo.reseller
  await app.credit(accountId, 10_000)
  const { body } = await app.client.post(
    '/api/v1/orders',
    { product_id: 'residential-premium', quantity: 2 },
    { key, headers: { 'Idempotency-Key': 'one' } },
  )
  const refund = ['orders', 'refund', '--order', body.orderId]
  const before = Date.now()
  const named = await cli(...refund, '--cents', '100', '--reference', 'ticket 4711')
  assert.equal(named.code, 0, named.err)
  assert.equal((await cli(...refund, '--cents', '50')).code, 0)

  const { refunds } = (await cli('orders', 'show', body.orderId)).json
  assert.deepEqual(
    refunds.map(({ amountCents, reference }: { amountCents: number; reference?: string }) => [
      amountCents,
      reference,
    ]),
    [
      [100, 'ticket 4711'],
      [50, undefined],
    ],
  )
  for (const { decidedAt } of refunds) {
    assert.match(decidedAt, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    assert.ok(Math.abs(Date.parse(decidedAt) - before) < 60_000, decidedAt)
  }
  assert.equal((await cli(...refund, '--cents', '1', '--reference', 'ticket 4711')).code, 1)
  const unprintable = await cli(...refund, '--cents', '1', '--reference', 'a\u0007')
  assert.equal(unprintable.code, 2)
  await app.verified()
})

test("orders list pages through an account's orders, newest first, with their customers", async (t) => {
  const app = await testApp(t)
  const { cli } = app
  const { key, accountId } = app.demo.reseller
  await app.credit(accountId, 10_000)
  const order = async (quantity: number, idempotencyKey: string): Promise<string> => {
    const headers = { 'Idempotency-Key': idempotencyKey }
    const body = { product_id: 'residential-premium', quantity }
    return (await app.client.post('/api/v1/orders', body, { key, headers })).body.orderId
  }
  const totals = async () => {
    const [all, completed] = [
      await cli('orders', 'list'),
      await cli('orders', 'list', '--status', 'completed'),
    ]
    return [all.json.total, completed.json.total]
  }
  const before = await totals()
  const ids = [await order(1, 'one'), await order(2, 'two'), await order(3, 'three')]
  await app.client.get('/api/v1/orders', { key }) // which waits for the read tables
  const list = async (...args: string[]) => await cli('orders', 'list', '--account', accountId, ...args)
  const whole = await list()
  assert.equal(whole.code, 0, whole.err)
  assert.deepEqual(
    whole.json.orders.map(({ orderId }: { orderId: string }) => orderId),
    ids.toReversed(),
  )
  const { accountId: of, total, limit, offset } = whole.json
  assert.deepEqual({ of, total, limit, offset }, { of: accountId, total: 3, limit: 50, offset: 0 })
  const page = (await list('--limit', '1', '--offset', '1')).json
  assert.deepEqual([page.orders[0].orderId, page.orders.length, page.total], [ids[1], 1, 3])

  assert.equal((await cli('orders', 'refund', '--order', ids[0] ?? '')).code, 0)
  await app.client.get('/api/v1/orders', { key })
  const refunded = (await list('--status', 'refunded')).json
  assert.deepEqual(
    refunded.orders.map((row: { orderId: string; refundedCents: number; amountCents: number }) => [
      row.orderId,
      row.refundedCents === row.amountCents,
    ]),
    [[ids[0], true]],
  )
  assert.equal((await list('--status', 'lost')).code, 2)

  const { buyer } = app.demo
  const others = await app.client.post(
    '/api/v1/orders',
    { product_id: 'residential-premium', quantity: 1 },
    { key: buyer.key, headers: { 'Idempotency-Key': 'four' } },
  )
  await app.client.get('/api/v1/orders', { key: buyer.key })
  const all = (await cli('orders', 'list', '--limit', '3')).json
  assert.deepEqual(
    all.orders.map((row: { orderId: string; accountId: string }) => [row.orderId, row.accountId]),
    [
      [others.body.orderId, buyer.accountId],
      [ids[2], accountId],
      [ids[1], accountId],
    ],
  )
  assert.equal(all.accountId, null)
  assert.deepEqual(await totals(), [before[0] + 4, before[1] + 3])
  const unknown = await cli('orders', 'list', '--account', 'acc_unknown')
  assert.deepEqual([unknown.code, unknown.json.code], [2, 'not_found'])
  await app.verified()
})
