import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const hourMs = 3_600_000
/** Longer than the provider watches an invoice: an hour and a day at BTCPay, a day and two weeks at Stripe. */
const outages = [
  { method: 'crypto', length: '26 hours', ms: 26 * hourMs },
  { method: 'card', length: '16 days', ms: 16 * 24 * hourMs },
] as const

/** An own order on a hosted rail, and its deposit. */
const openOrder = async (app: TestApp, key: string, method: string) => {
  const body = { product_id: 'residential-premium', quantity: 5, method }
  const { status, text, body: order } = await app.client.post('/api/v1/orders', body, { key })
  assert.equal(status, 201, text)
  const { deposits } = (await app.client.get('/api/v1/deposits', { key })).body
  const deposit = deposits.find(({ order_id }: { order_id: string }) => order_id === order.orderId)
  return { orderId: order.orderId, amountCents: order.amountCents, deposit }
}

const untilOrder = (app: TestApp, key: string, orderId: string, wanted: string) =>
  until(async () => (await app.client.get(`/api/v1/orders/${orderId}`, { key })).body.status === wanted, {
    what: `an order that is ${wanted}`,
  })

const looksAt = async (app: TestApp, depositId: string): Promise<number> => {
  const { rows } = await app.core.pool.query(
    'select attempts from work.deposit_looks where deposit_id = $1',
    [depositId],
  )
  return rows[0]?.attempts ?? 0
}

for (const { method, length, ms } of outages)
  describe(`an outage of ${length}, longer than ${method} is polled`, () => {
    test('payments during it are credited after it, and the waiting order is placed', async (t) => {
      const app = await testApp(t, { own: true })
      const { key } = await app.customer({ cents: 0 })
      const own = await app.openDeposit(key, { amount_cents: 2500, method })
      const { orderId, amountCents, deposit } = await openOrder(app, key, method)
      await app.switches({ lost: 1 })
      await app.act(own.deposit_id, 'pay', 2500)
      await app.act(deposit.deposit_id, 'pay', deposit.amount_cents)
      app.ahead(ms)
      await app.untilDeposit(key, own.deposit_id, { status: 'paid', credited_cents: 2500 })
      await untilOrder(app, key, orderId, 'completed')
      await app.untilBalance(key, 2500 + deposit.amount_cents - amountCents)
    })

    test('an unpaid deposit expires, and the waiting order is canceled', async (t) => {
      const app = await testApp(t, { own: true })
      const { key } = await app.customer({ cents: 0 })
      const own = await app.openDeposit(key, { amount_cents: 2500, method })
      const { orderId, deposit } = await openOrder(app, key, method)
      await app.switches({ lost: 1 })
      app.ahead(ms)
      await app.untilDeposit(key, own.deposit_id, { status: 'expired', credited_cents: 0 })
      await app.untilDeposit(key, deposit.deposit_id, { status: 'expired', credited_cents: 0 })
      await untilOrder(app, key, orderId, 'canceled')
      assert.equal(await app.balance(key), 0)
    })
  })

test('a deposit that closed before an outage is credited with late payments of that time', async (t) => {
  const app = await testApp(t, { own: true })
  const { key } = await app.customer({ cents: 0 })
  const { deposit_id: id } = await app.openDeposit(key, { amount_cents: 2500, method: 'crypto' })
  await app.act(id, 'expire')
  await app.untilDeposit(key, id, { status: 'expired' })
  await app.switches({ lost: 1 })
  await app.act(id, 'pay', 2500)
  app.ahead(26 * hourMs)
  await app.untilDeposit(key, id, { status: 'paid', credited_cents: 2500 })
  await app.untilBalance(key, 2500)
})

test('a payment that is pending at the last poll is credited once it is confirmed', async (t) => {
  const app = await testApp(t, { own: true })
  const { key } = await app.customer({ cents: 0 })
  const { deposit_id: id } = await app.openDeposit(key, { amount_cents: 2500, method: 'crypto' })
  await app.switches({ lost: 1 })
  await app.act(id, 'process', 2500)
  app.ahead(26 * hourMs)
  await app.untilDeposit(key, id, { status: 'processing' })
  await app.act(id, 'pay', 2500)
  app.ahead(28 * hourMs)
  await app.untilDeposit(key, id, { status: 'paid', credited_cents: 2500 })
  await app.untilBalance(key, 2500)
})

test('a deposit that never got an invoice is closed after an outage', async (t) => {
  const app = await testApp(t, { own: true })
  const { key } = await app.customer({ cents: 0 })
  await app.switches({ down: true })
  const failed = await app.client.post('/api/v1/deposits', { amount_cents: 2500, method: 'card' }, { key })
  assert.equal(failed.status, 502, failed.text)
  const [deposit] = (await app.client.get('/api/v1/deposits', { key })).body.deposits
  assert.deepEqual([deposit.status, deposit.pay_url], ['awaiting_payment', null])
  app.ahead(26 * hourMs)
  await app.untilDeposit(key, deposit.deposit_id, { status: 'failed' })
})

test('a gateway that is down at the last poll is polled again until it answers, and then no more', async (t) => {
  const app = await testApp(t, { own: true })
  const { key } = await app.customer({ cents: 0 })
  const { deposit_id: id } = await app.openDeposit(key, { amount_cents: 2500, method: 'crypto' })
  await app.switches({ lost: 1, down: true })
  await app.act(id, 'pay', 2500)
  for (const [looks, hours] of [26, 28, 31].entries()) {
    app.ahead(hours * hourMs)
    await until(async () => (await looksAt(app, id)) === looks + 1, { what: `look ${looks + 1}` })
  }
  assert.equal((await app.readDeposit(key, id)).status, 'awaiting_payment')
  await app.switches({ down: false })
  app.ahead(40 * hourMs)
  await app.untilDeposit(key, id, { status: 'paid', credited_cents: 2500 })
  await app.untilBalance(key, 2500)

  // The poll of another deposit proves that a round has skipped it.
  const looks = await looksAt(app, id)
  for (const hours of [42, 44]) {
    const other = await app.openDeposit(key, { amount_cents: 500, method: 'card' })
    app.ahead(hours * hourMs)
    await until(async () => (await looksAt(app, other.deposit_id)) > 0, { what: 'a look at the other one' })
    assert.equal(await looksAt(app, id), looks)
  }
})
