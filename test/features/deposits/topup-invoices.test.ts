import assert from 'node:assert/strict'
import { test } from 'node:test'
import { completeTopup, requestTopup } from '../../../src/features/deposits/auto-topup.ts'
import type { LiveGateway } from '../../../src/features/payments/index.ts'
import { done } from '../../support/app-actions.ts'
import { hiddenField, signedIn } from '../../support/console.ts'
import { commandLineOf } from '../../support/operator.ts'
import { type OwnApp, secondClient, type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { hookTo } from '../webhooks/deliveries.ts'
import { startReceiver } from '../webhooks/receiver.ts'
import {
  type Customer,
  debit,
  depositsOf,
  lettersOf,
  path,
  read,
  turnOn,
  typesOf,
  untilRetried,
  untilType,
} from './topup-actions.ts'

const order = { product_id: 'residential-basic', quantity: 1 }
const settings = {
  thresholdCents: 1_000,
  amountCents: 2_000,
  monthlyMaxCents: 9_000,
  method: 'crypto',
} as const

/** The deposits, newest first. The newest one has a payment link. */
const untilInvoices = (app: OwnApp, customer: Customer, count = 1) =>
  untilRetried(
    app,
    async () => {
      const deposits = await depositsOf(app, customer)
      return deposits.length === count && deposits[0].pay_url ? deposits : null
    },
    { what: `${count} invoices` },
  )

const untilLetters = (app: OwnApp, customer: Customer, subject: 'Invoice' | 'Automatic', count = 1) =>
  untilRetried(
    app,
    async () => {
      const letters = await lettersOf(app, customer, subject)
      return letters.length === count ? letters : null
    },
    { what: `${count} e-mails: ${subject}` },
  )

/** The invoices at the simulated provider. */
const invoicesOf = async (app: TestApp, { accountId }: Customer) => {
  const { rows } = await app.core.pool.query<{ provider: string }>(
    `select body->>'provider' as provider from work.sandbox_records r
      where kind = 'invoice'
        and exists (select from read.deposits d where d.deposit_id = r.body->>'reference' and d.account_id = $1)`,
    [accountId],
  )
  return rows.map(({ provider }) => provider)
}

/** Only for requests: the gateway is not called. */
const gateways = {
  forRail: async () =>
    ({ gatewayId: 'sandbox-btcpay', provider: 'btcpay', merchantName: 'Farebox' }) as unknown as LiveGateway,
}

test('automatic top-up by invoices, over HTTP', { concurrency: true }, async (t) => {
  const app = await testApp(t, { own: true })
  const { client } = app
  const runs = { runner: app.core.runner, gateways } as never

  // Each has customers of its own, and most of its time is a worker's pause.
  await Promise.all([
    t.test('40 debits at once below the threshold send one invoice; its payment ends it', async () => {
      const elsewhere = await secondClient(t, app)
      const customer = await app.customer({ cents: 200_000 })
      const { key } = customer
      const on = await turnOn(app, customer, {
        ...settings,
        thresholdCents: 200_000,
        amountCents: 500_000,
        monthlyMaxCents: 5_000_000,
      })
      assert.deepEqual([on.body.enabled, on.body.method, on.body.card], [true, 'crypto', null])
      const buy = (n: number) => {
        const headers = { 'Idempotency-Key': `order-${n}` }
        // A busy machine answers 503, and the buyer sends the order again.
        return until(async () => {
          const server = n % 2 === 0 ? client : elsewhere
          const { status } = await server.post('/api/v1/orders', order, { key, headers })
          return status !== 503 && status
        })
      }
      const bought = await Promise.all(Array.from({ length: 40 }, (_, n) => buy(n)))
      assert.deepEqual(new Set(bought), new Set([201]))
      const [deposit] = await untilInvoices(app, customer)
      assert.deepEqual(
        [deposit.status, deposit.amount_cents, deposit.method],
        ['awaiting_payment', 500_000, 'crypto'],
      )
      const [letter] = await untilLetters(app, customer, 'Invoice')
      assert.ok(letter)
      assert.match(letter.text, /Pay the invoice of \$5,000\.00 before/)
      assert.ok(letter.text.includes(deposit.pay_url), letter.text)
      const open = await read(app, customer)
      assert.deepEqual([open.pending, open.monthCents, open.failure], [true, 500_000, null])
      const before = await app.balance(key)
      await app.act(deposit.deposit_id, 'pay')
      await untilType(app, customer, 'TopupPaid')
      assert.equal(await app.balance(key), before + 500_000)
      assert.deepEqual(await typesOf(app, customer), ['TopupSettingsChanged', 'TopupRequested', 'TopupPaid'])
      assert.deepEqual(await invoicesOf(app, customer), ['btcpay'])
      assert.equal((await lettersOf(app, customer, '')).length, 1)
      assert.equal((await read(app, customer)).pending, false)
    }),
    t.test('what arrives is credited: more than the invoice, or a part until it expires', async () => {
      const [much, little] = [await app.customer({ cents: 100 }), await app.customer({ cents: 100 })]
      await turnOn(app, much, { ...settings, monthlyMaxCents: 2_000 })
      await turnOn(app, little, { ...settings, monthlyMaxCents: 2_000 })
      const [more] = await untilInvoices(app, much)
      const [part] = await untilInvoices(app, little)
      await app.act(more.deposit_id, 'pay', 2_500)
      await app.act(part.deposit_id, 'pay', 500)
      await app.untilBalance(little.key, 600)
      assert.equal((await read(app, little)).pending, true)
      await app.act(part.deposit_id, 'expire')
      await untilType(app, much, 'TopupPaid')
      await untilType(app, little, 'TopupPaid')
      assert.deepEqual([await app.balance(much.key), await app.balance(little.key)], [2_600, 600])
      assert.equal((await read(app, little)).failure, null)
    }),
    t.test('a target balance is reached, and the monthly maximum is never exceeded', async () => {
      const customer = await app.customer({ cents: 500 })
      await turnOn(app, customer, {
        thresholdCents: 1_000,
        targetBalanceCents: 3_000,
        monthlyMaxCents: 4_000,
        method: 'crypto',
      })
      const [first] = await untilInvoices(app, customer)
      assert.equal(first.amount_cents, 2_500)
      await app.act(first.deposit_id, 'pay')
      await untilType(app, customer, 'TopupPaid')
      await debit(app, customer, 2_900, 'used')
      const [second] = await untilInvoices(app, customer, 2)
      assert.equal(second.amount_cents, 1_500)
      await app.act(second.deposit_id, 'pay')
      await untilType(app, customer, 'TopupPaid', 2)
      await debit(app, customer, 1_600, 'used 2')
      assert.equal((await read(app, customer)).monthCents, 4_000)
      assert.notEqual(await requestTopup(runs, customer.accountId), 'requested')
      assert.equal((await depositsOf(app, customer)).length, 2)
    }),
    t.test('when it is turned off, the open invoice ends by itself, and no other follows', async () => {
      const customer = await app.customer({ cents: 100 })
      await turnOn(app, customer, settings)
      const [deposit] = await untilInvoices(app, customer)
      const off = (await done(client.call('DELETE', path, { key: customer.key }))).body
      assert.deepEqual([off.enabled, off.method, off.pending], [false, null, true])
      await app.act(deposit.deposit_id, 'pay', 300)
      await app.act(deposit.deposit_id, 'expire')
      await untilType(app, customer, 'TopupPaid')
      assert.equal(await requestTopup(runs, customer.accountId), 'not_needed')
      assert.equal(await completeTopup(runs, customer.accountId), 'none')
      assert.deepEqual(await typesOf(app, customer), [
        'TopupSettingsChanged',
        'TopupRequested',
        'TopupTurnedOff',
        'TopupPaid',
      ])
      assert.equal((await depositsOf(app, customer)).length, 1)
    }),
    t.test('the console shows and changes the method, and the command line shows it', async () => {
      const customer = await app.customer({ cents: 5_000 })
      const browser = await signedIn(app, customer.accountId)
      const pagePath = '/console/auto-topup'
      const page = await browser.get(pagePath)
      const fields = { threshold: '10', amount: '20', target: '', max: '50', method: 'crypto' }
      const form = hiddenField(page as never, 'form')
      assert.equal((await browser.post(pagePath, { form, ...fields })).to, pagePath)
      assert.match((await browser.get(pagePath)).html, /value="crypto" checked/)
      assert.equal((await read(app, customer)).method, 'crypto')
      const alice = commandLineOf(app.farebox, { kind: 'operator', name: 'alice' })
      const shown = await alice('deposits', 'auto-topup', '--account', customer.accountId)
      assert.deepEqual([shown.json.enabled, shown.json.method], [true, 'crypto'])
    }),
  ])

  await t.test('40 requests at once append one, and its repeated work makes one invoice', async () => {
    const customer = await app.customer({ cents: 100 })
    await app.switches({ down: true })
    try {
      await turnOn(app, customer, settings)
      const answers = await Promise.all(
        Array.from({ length: 40 }, () => requestTopup(runs, customer.accountId)),
      )
      assert.ok(answers.filter((answer) => answer === 'requested').length <= 1)
      await untilType(app, customer, 'TopupRequested')
      assert.equal((await lettersOf(app, customer, '')).length, 0)
    } finally {
      await app.switches({ down: false, apiCut: 'after', apiCutShare: 0.5 })
    }
    const [deposit] = await untilInvoices(app, customer).finally(() =>
      app.switches({ apiCut: 'never', apiCutShare: 1 }),
    )
    await untilRetried(app, async () => (await lettersOf(app, customer, 'Invoice'))[0], {
      what: 'the e-mail',
    })
    await app.act(deposit.deposit_id, 'pay')
    await untilType(app, customer, 'TopupPaid')
    assert.equal(await app.balance(customer.key), 2_100)
    assert.equal((await typesOf(app, customer)).filter((type) => type === 'TopupRequested').length, 1)
    assert.equal((await invoicesOf(app, customer)).length, 1)
  })

  await t.test('each expired invoice fails its top-up, and the third turns it off', async () => {
    const customer = await app.customer({ cents: 100 })
    const receiver = await startReceiver(t)
    await hookTo(app, receiver.url, ['wallet.topup_failed'], customer)
    await turnOn(app, customer, settings)
    const expire = async (count: number) => {
      const [deposit] = await untilInvoices(app, customer, count)
      await untilLetters(app, customer, 'Invoice', count)
      await app.act(deposit.deposit_id, 'expire')
      await untilType(app, customer, 'TopupFailed', count)
      await untilLetters(app, customer, 'Automatic', count)
      return deposit.deposit_id
    }
    const late = await expire(1)
    const first = await read(app, customer)
    assert.deepEqual(
      [first.enabled, first.failure.reason, first.failure.failures, first.monthCents],
      [true, 'invoice_expired', 1, 0],
    )
    assert.equal(await requestTopup(runs, customer.accountId), 'not_needed')
    app.wait(3_600_000)
    await expire(2)
    app.wait(3_600_000)
    assert.equal(await requestTopup(runs, customer.accountId), 'not_needed')
    app.wait(23 * 3_600_000)
    await expire(3)
    await untilType(app, customer, 'TopupTurnedOff')
    assert.equal((await read(app, customer)).enabled, false)
    await until(() => receiver.received.length === 3, { what: 'three webhooks' })
    assert.deepEqual(
      receiver.received.map(({ json }) => [json.data.failures, json.data.turnedOff, json.data.reason]),
      [
        [1, false, 'invoice_expired'],
        [2, false, 'invoice_expired'],
        [3, true, 'invoice_expired'],
      ],
    )
    const failed = await lettersOf(app, customer, 'Automatic')
    assert.ok(failed.every(({ text }) => text.includes('The invoice was not paid in time')))
    assert.ok(failed.some(({ text }) => text.includes('automatic top-up is off')))
    await app.act(late, 'pay')
    await app.untilBalance(customer.key, 2_100)
  })

  await t.test('the log passes verification', async () => {
    await app.verified()
  })
})
