import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hiddenField, signedIn } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { hookTo } from '../webhooks/deliveries.ts'
import { startReceiver } from '../webhooks/receiver.ts'
import {
  chargesOf,
  debit,
  depositsOf,
  lettersOf,
  read,
  saveCard,
  turnOn,
  typesOf,
  untilCard,
  untilRetried,
  untilType,
} from './topup-actions.ts'

const pagePath = '/console/auto-topup'

test('pauses of automatic top-up, over HTTP', { concurrency: true }, async (t) => {
  const app = await testApp(t, { own: true })
  const start = async (cents: number) => {
    const customer = await app.customer({ cents })
    await saveCard(app, customer, 'good')
    await untilCard(app, customer, '4242')
    return customer
  }

  await Promise.all([
    t.test(
      'a refund pauses it until the customer resumes it, and a reached maximum until the next month',
      async () => {
        const customer = await start(100)
        const receiver = await startReceiver(t)
        await hookTo(app, receiver.url, ['wallet.topup_paused'], customer)
        await turnOn(app, customer, { thresholdCents: 1_000, amountCents: 2_500, monthlyMaxCents: 20_000 })
        await untilType(app, customer, 'TopupPaid')
        const [{ deposit_id: id }] = await depositsOf(app, customer)
        await debit(app, customer, 600, 'used')
        await app.act(id, 'refund', 2_500)
        await untilType(app, customer, 'TopupPaused')
        const { enabled, paused } = await read(app, customer)
        assert.deepEqual([enabled, paused], [true, { reason: 'deposit_refund', until: null }])
        const [letter] = await untilRetried(
          app,
          async () => {
            const letters = await lettersOf(app, customer, 'Automatic top-up is paused')
            return letters.length > 0 ? letters : null
          },
          { what: 'the e-mail' },
        )
        assert.match(letter!.text, /a payment was refunded.*until you resume it.*The account owes \$5\.00/s)
        await until(() => receiver.received.length > 0, { what: 'the webhook' })
        const { reason, owedCents, until: ends } = receiver.received[0]!.json.data
        assert.deepEqual([reason, owedCents, ends], ['deposit_refund', 500, null])

        await turnOn(app, customer, { thresholdCents: 1_100, amountCents: 2_500, monthlyMaxCents: 20_000 })
        assert.equal((await read(app, customer)).paused.reason, 'deposit_refund')
        assert.equal(await chargesOf(app, customer), 1)

        const browser = await signedIn(app, customer.accountId)
        const page = await browser.get(pagePath)
        assert.match(page.html, /Paused.*Resume automatic top-up.*The account owes \$5\.00/s)
        await browser.post(pagePath, { form: hiddenField(page as never, 'form'), do: 'resume' })
        await untilType(app, customer, 'TopupPaid', 2)
        assert.equal(await app.balance(customer.key), 2_000)
        assert.equal((await read(app, customer)).paused, null)
        assert.equal(await chargesOf(app, customer), 2)
        assert.equal((await lettersOf(app, customer, 'Automatic top-up is paused')).length, 1)

        await turnOn(app, customer, { thresholdCents: 3_000, amountCents: 2_500, monthlyMaxCents: 7_000 })
        await untilType(app, customer, 'TopupPaused', 2)
        const reached = (await read(app, customer)).paused
        assert.equal(reached.reason, 'monthly_maximum')
        assert.match(reached.until, /-01T00:00:00\.000Z$/)
        await untilRetried(
          app,
          async () =>
            (await lettersOf(app, customer, 'Automatic top-up reached its monthly maximum')).length === 1,
          { what: 'the e-mail about the maximum' },
        )
        assert.equal(await chargesOf(app, customer), 2)
      },
    ),
    t.test('after a block has ended, nothing is charged', async () => {
      const customer = await start(5_000)
      await turnOn(app, customer, { thresholdCents: 1_000, amountCents: 2_000, monthlyMaxCents: 20_000 })
      await app.run('accounts', 'block', customer.accountId, '--reason', 'dispute')
      await debit(app, customer, 5_000, 'used')
      await app.run('accounts', 'unblock', customer.accountId)
      await untilType(app, customer, 'TopupPaused')
      assert.equal((await read(app, customer)).paused.reason, 'account_blocked')
      assert.equal(await chargesOf(app, customer), 0)
      await turnOn(app, customer, {
        thresholdCents: 1_000,
        amountCents: 2_000,
        monthlyMaxCents: 20_000,
        resume: true,
      })
      await untilType(app, customer, 'TopupPaid')
    }),
  ])

  await t.test('a card is not charged if the account was blocked after the request', async () => {
    const customer = await start(100)
    await app.switches({ down: true })
    await turnOn(app, customer, { thresholdCents: 1_000, amountCents: 2_000, monthlyMaxCents: 5_000 })
    await untilType(app, customer, 'TopupRequested')
    await app.run('accounts', 'block', customer.accountId, '--reason', 'dispute')
    await app.run('accounts', 'unblock', customer.accountId)
    await app.switches({ down: false })
    await untilType(app, customer, 'TopupFailed')
    assert.equal((await read(app, customer)).failure.reason, 'paused')
    assert.deepEqual((await typesOf(app, customer)).slice(-2), ['TopupPaused', 'TopupFailed'])
    assert.equal(await chargesOf(app, customer), 0)
  })

  await t.test('the log passes verification', async () => {
    await app.verified()
  })
})
