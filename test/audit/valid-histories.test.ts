import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { startReceiver, status } from '../features/webhooks/receiver.ts'
import { asCustomer } from '../support/app-actions.ts'
import { type OwnApp, testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs

/** The shop continues for a while after `ms`: work that was open before is now long overdue in the log. */
const goOn = async (app: OwnApp, ms: number): Promise<void> => {
  const { key } = await app.customer({ cents: 2_000 })
  for (const later of [0, 15 * minuteMs]) {
    app.ahead(ms + later)
    const order = { product_id: 'residential-premium', quantity: 1 }
    const headers = { 'idempotency-key': randomUUID() }
    assert.equal((await app.client.post('/api/v1/orders', order, { key, headers })).status, 201)
  }
}

const assertClean = async ({ core, auditor, verified }: OwnApp): Promise<void> => {
  await verified()
  assert.ok(await auditor!.core.projecting.caughtUp(20_000))
  assert.deepEqual((await core.pool.query('select rule, problem from read.violations')).rows, [])
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
  test('with odd payments, webhooks after an outage of weeks, and a provider that is down for weeks', async (t) => {
    const app = await testApp(t, { own: true, audits: true })
    const mine = await app.customer({ cents: 2_000 })
    const { key } = mine
    const theirs = await app.resellerWithGateways('Now', 'nowpayments')

    await t.test('invoices that were overpaid, paid twice, in parts and late', async () => {
      for (const [what, { percents, late = false }] of Object.entries(payments))
        for (const [key, headers] of [
          [mine.key, {}],
          [theirs.key, asCustomer(what)],
        ] as const) {
          const cents = 2_500
          const { deposit_id: id } = await app.openDeposit(
            key,
            { amount_cents: cents, method: 'crypto' },
            headers,
          )
          let paid = 0
          for (const [n, percent] of percents.entries()) {
            if (late && n === percents.length - 1) await app.act(id, 'expire')
            paid += (cents * percent) / 100
            assert.equal((await app.act(id, 'pay', (cents * percent) / 100)).status, 200, what)
            await app.untilDeposit(key, id, { credited_cents: paid })
          }
        }
      await goOn(app, 40 * dayMs)
      await assertClean(app)
    })

    await t.test('retried webhooks, and a deposit that could not be polled', async (t) => {
      const receiver = await startReceiver(t)
      receiver.answer(status(500))
      const endpoint = { url: receiver.url, events: ['order.fulfilled'] }
      assert.equal((await app.client.post('/api/v1/webhooks', endpoint, { key })).status, 201)
      const order = { product_id: 'residential-premium', quantity: 1 }
      assert.equal((await app.client.post('/api/v1/orders', order, { key })).status, 201)
      await until(() => receiver.received.length > 0)
      const { deposit_id: id } = await app.openDeposit(key, { amount_cents: 2_500, method: 'crypto' })
      await app.switches({ down: true })
      await goOn(app, 60 * dayMs)
      await assertClean(app)
      await app.switches({ down: false })
      // The next attempt is due, however many failed before.
      app.ahead(61 * dayMs)
      await app.untilDeposit(key, id, { status: 'expired' })
    })
  })
})
