import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { until } from '../../support/until.ts'
import { openShop, type Shop } from './support.ts'

const hourMs = 3_600_000
/** Longer than the provider watches an invoice: an hour and a day at BTCPay, a day and two weeks at Stripe. */
const outages = [
  { method: 'crypto', length: '26 hours', ms: 26 * hourMs },
  { method: 'card', length: '16 days', ms: 16 * 24 * hourMs },
] as const

/** An own order on a hosted rail, and its deposit. */
const openOrder = async (shop: Shop, key: string, method: string) => {
  const body = { product_id: 'residential-premium', quantity: 5, method }
  const { status, text, body: order } = await shop.client.post('/api/v1/orders', body, { key })
  assert.equal(status, 201, text)
  const { deposits } = (await shop.client.get('/api/v1/deposits', { key })).body
  const deposit = deposits.find(({ order_id }: { order_id: string }) => order_id === order.orderId)
  return { orderId: order.orderId, amountCents: order.amountCents, deposit }
}

const untilOrder = (shop: Shop, key: string, orderId: string, wanted: string) =>
  until(async () => (await shop.client.get(`/api/v1/orders/${orderId}`, { key })).body.status === wanted, {
    what: `an order that is ${wanted}`,
  })

const looksAt = async (shop: Shop, depositId: string): Promise<number> => {
  const { rows } = await shop.farebox.core.pool.query(
    'select attempts from work.deposit_looks where deposit_id = $1',
    [depositId],
  )
  return rows[0]?.attempts ?? 0
}

for (const { method, length, ms } of outages)
  describe(`an outage of ${length}, longer than ${method} is polled`, () => {
    test('payments during it are credited after it, and the waiting order is placed', async (t) => {
      const shop = await openShop(t)
      const { key } = await shop.customer({ cents: 0 })
      const own = await shop.open(key, { amount_cents: 2500, method })
      const { orderId, amountCents, deposit } = await openOrder(shop, key, method)
      await shop.switches({ lost: 1 })
      await shop.act(own.deposit_id, 'pay', 2500)
      await shop.act(deposit.deposit_id, 'pay', deposit.amount_cents)
      shop.ahead(ms)
      await shop.reads(key, own.deposit_id, { status: 'paid', credited_cents: 2500 })
      await untilOrder(shop, key, orderId, 'completed')
      await shop.untilBalance(key, 2500 + deposit.amount_cents - amountCents)
    })

    test('an unpaid deposit expires, and the waiting order is canceled', async (t) => {
      const shop = await openShop(t)
      const { key } = await shop.customer({ cents: 0 })
      const own = await shop.open(key, { amount_cents: 2500, method })
      const { orderId, deposit } = await openOrder(shop, key, method)
      await shop.switches({ lost: 1 })
      shop.ahead(ms)
      await shop.reads(key, own.deposit_id, { status: 'expired', credited_cents: 0 })
      await shop.reads(key, deposit.deposit_id, { status: 'expired', credited_cents: 0 })
      await untilOrder(shop, key, orderId, 'canceled')
      assert.equal(await shop.balance(key), 0)
    })
  })

test('a deposit that closed before an outage is credited with late payments of that time', async (t) => {
  const shop = await openShop(t)
  const { key } = await shop.customer({ cents: 0 })
  const { deposit_id: id } = await shop.open(key, { amount_cents: 2500, method: 'crypto' })
  await shop.act(id, 'expire')
  await shop.reads(key, id, { status: 'expired' })
  await shop.switches({ lost: 1 })
  await shop.act(id, 'pay', 2500)
  shop.ahead(26 * hourMs)
  await shop.reads(key, id, { status: 'paid', credited_cents: 2500 })
  await shop.untilBalance(key, 2500)
})

test('a payment that is pending at the last poll is credited once it is confirmed', async (t) => {
  const shop = await openShop(t)
  const { key } = await shop.customer({ cents: 0 })
  const { deposit_id: id } = await shop.open(key, { amount_cents: 2500, method: 'crypto' })
  await shop.switches({ lost: 1 })
  await shop.act(id, 'process', 2500)
  shop.ahead(26 * hourMs)
  await shop.reads(key, id, { status: 'processing' })
  await shop.act(id, 'pay', 2500)
  shop.ahead(28 * hourMs)
  await shop.reads(key, id, { status: 'paid', credited_cents: 2500 })
  await shop.untilBalance(key, 2500)
})

test('a deposit that never got an invoice is closed after an outage', async (t) => {
  const shop = await openShop(t)
  const { key } = await shop.customer({ cents: 0 })
  await shop.switches({ down: true })
  const failed = await shop.client.post('/api/v1/deposits', { amount_cents: 2500, method: 'card' }, { key })
  assert.equal(failed.status, 502, failed.text)
  const [deposit] = (await shop.client.get('/api/v1/deposits', { key })).body.deposits
  assert.deepEqual([deposit.status, deposit.pay_url], ['awaiting_payment', null])
  shop.ahead(26 * hourMs)
  await shop.reads(key, deposit.deposit_id, { status: 'failed' })
})

test('a gateway that is down at the last poll is polled again until it answers, and then no more', async (t) => {
  const shop = await openShop(t)
  const { key } = await shop.customer({ cents: 0 })
  const { deposit_id: id } = await shop.open(key, { amount_cents: 2500, method: 'crypto' })
  await shop.switches({ lost: 1, down: true })
  await shop.act(id, 'pay', 2500)
  for (const [looks, hours] of [26, 28, 31].entries()) {
    shop.ahead(hours * hourMs)
    await until(async () => (await looksAt(shop, id)) === looks + 1, { what: `look ${looks + 1}` })
  }
  assert.equal((await shop.read(key, id)).status, 'awaiting_payment')
  await shop.switches({ down: false })
  shop.ahead(40 * hourMs)
  await shop.reads(key, id, { status: 'paid', credited_cents: 2500 })
  await shop.untilBalance(key, 2500)

  // The poll of another deposit proves that a round has skipped it.
  const looks = await looksAt(shop, id)
  for (const hours of [42, 44]) {
    const other = await shop.open(key, { amount_cents: 500, method: 'card' })
    shop.ahead(hours * hourMs)
    await until(async () => (await looksAt(shop, other.deposit_id)) > 0, { what: 'a look at the other one' })
    assert.equal(await looksAt(shop, id), looks)
  }
})
