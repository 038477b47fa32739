import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { customer, openReseller, openShop, type Shop } from '../features/deposits/support.ts'
import { startReceiver, status } from '../features/webhooks/receiver.ts'
import { until } from '../support/until.ts'
import { assertVerified } from '../support/verify.ts'

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs

/** The shop continues for a while after `ms`: work that was open before is now long overdue in the log. */
const goOn = async (shop: Shop, ms: number): Promise<void> => {
  const { key } = await shop.customer({ cents: 2_000 })
  for (const later of [0, 15 * minuteMs]) {
    shop.ahead(ms + later)
    const order = { product_id: 'residential-premium', quantity: 1 }
    const headers = { 'idempotency-key': randomUUID() }
    assert.equal((await shop.client.post('/api/v1/orders', order, { key, headers })).status, 201)
  }
}

const assertClean = async ({ farebox }: Shop): Promise<void> => {
  const { pool, log, keys } = farebox.core
  await assertVerified({ pool, log, sealKey: keys.seal })
  assert.deepEqual((await pool.query('select rule, problem from read.violations')).rows, [])
}

/** In percent of the invoice, in this order; `late`: the invoice expires before the last of them. */
const payments: Readonly<Record<string, { readonly percents: readonly number[]; readonly late?: boolean }>> =
  {
    'too much': { percents: [150] },
    twice: { percents: [100, 100] },
    'in parts': { percents: [40, 60] },
    'in parts, and then too much': { percents: [40, 60, 100] },
    'in part, and no more': { percents: [40] },
    'in part, and the rest late': { percents: [40, 60], late: true },
    'in part, and another part late': { percents: [40, 20], late: true },
    late: { percents: [100], late: true },
    'twice, late': { percents: [100, 100], late: true },
  }

describe('a verification finds nothing wrong', () => {
  test('with invoices that were overpaid, paid twice, in parts and late', async (t) => {
    const shop = await openShop(t)
    const mine = await shop.customer({ cents: 0 })
    const theirs = await openReseller(shop, 'Now', 'nowpayments')
    for (const [what, { percents, late = false }] of Object.entries(payments))
      for (const [key, headers] of [
        [mine.key, {}],
        [theirs.key, customer(what)],
      ] as const) {
        const cents = 2_500
        const { deposit_id: id } = await shop.open(key, { amount_cents: cents, method: 'crypto' }, headers)
        let paid = 0
        for (const [n, percent] of percents.entries()) {
          if (late && n === percents.length - 1) await shop.act(id, 'expire')
          paid += (cents * percent) / 100
          assert.equal((await shop.act(id, 'pay', (cents * percent) / 100)).status, 200, what)
          await shop.reads(key, id, { credited_cents: paid })
        }
      }
    await goOn(shop, 40 * dayMs)
    await assertClean(shop)
  })

  test('with webhooks that are retried after an outage of weeks', async (t) => {
    const shop = await openShop(t)
    const receiver = await startReceiver(t)
    receiver.answer(status(500))
    const { key } = await shop.customer({ cents: 2_000 })
    const endpoint = { url: receiver.url, events: ['order.fulfilled'] }
    assert.equal((await shop.client.post('/api/v1/webhooks', endpoint, { key })).status, 201)
    const order = { product_id: 'residential-premium', quantity: 1 }
    assert.equal((await shop.client.post('/api/v1/orders', order, { key })).status, 201)
    await until(() => receiver.received.length > 0)
    await goOn(shop, 20 * dayMs)
    await assertClean(shop)
  })

  test('with a deposit whose provider is down for weeks', async (t) => {
    const shop = await openShop(t)
    const { key } = await shop.customer({ cents: 0 })
    const { deposit_id: id } = await shop.open(key, { amount_cents: 2_500, method: 'crypto' })
    await shop.switches({ down: true })
    await goOn(shop, 20 * dayMs)
    await assertClean(shop)
    await shop.switches({ down: false })
    // The next attempt is due, however many failed before.
    shop.ahead(21 * dayMs)
    await shop.reads(key, id, { status: 'expired' })
  })
})
