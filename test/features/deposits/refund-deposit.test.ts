import assert from 'node:assert/strict'
import { test } from 'node:test'
import { asCustomer } from '../../support/app-actions.ts'
import { hiddenField, staffBrowser } from '../../support/console.ts'
import { limitAlone } from '../../support/four-eyes.ts'
import { commandLineOf, operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test('an operator refunds a card payment to the payer', async (t) => {
  const app = await testApp(t, { own: true, settings: { FAREBOX_DEPOSIT_LOOK_MS: '500' } })
  const { core } = app
  await limitAlone(core.log, 2_000)
  const alice = commandLineOf(app.farebox, { kind: 'operator', name: 'alice' })
  const bob = commandLineOf(app.farebox, { kind: 'operator', name: 'bob' })
  const paid = async (method = 'card', cents = 2_500) => {
    const account = await app.customer({ cents: 0 })
    const { deposit_id: id } = await app.openDeposit(account.key, { amount_cents: cents, method })
    await app.act(id, 'pay', cents)
    await app.untilBalance(account.key, cents)
    return { ...account, id: id as string }
  }
  const refund = (id: string, ...more: readonly string[]) =>
    alice('deposits', 'refund', '--deposit', id, ...more)
  const transactions = async (key: string) =>
    (await app.client.get('/api/v1/wallet/transactions', { key })).body.transactions as {
      type: string
      amountCents: number
      depositId: string | null
    }[]

  await t.test(
    'in part, once for a reason, and the callback of the provider books nothing twice',
    async () => {
      const { id, key } = await paid()
      const requested = await refund(id, '--cents', '700', '--reason', 'ticket 1')
      assert.deepEqual(
        [requested.code, requested.json.outcome, requested.json.amountCents],
        [0, 'requested', 700],
        requested.err,
      )
      await app.untilDeposit(key, id, { status: 'paid', credited_cents: 2_500, refunded_cents: 700 })
      await app.untilBalance(key, 1_800)
      const again = await refund(id, '--cents', '700', '--reason', 'ticket 1')
      assert.deepEqual([again.code, again.json.code, again.json.status], [1, 'already_applied', 'made'])
      await until(async () => {
        const { rows } = await core.pool.query(
          `select from work.gateway_inbox where reference like 'charge:%' and finished_at is not null`,
        )
        return rows.length > 0
      })
      assert.deepEqual(
        (await transactions(key)).map(({ type, amountCents, depositId }) => [type, amountCents, depositId]),
        [
          ['deposit_refund', -700, id],
          ['release', 700, id],
          ['hold', -700, id],
          ['deposit', 2_500, id],
        ],
      )
      const rest = await refund(id, '--reason', 'ticket 2')
      assert.equal(rest.json.amountCents, 1_800)
      await app.untilBalance(key, 0)
      const none = await refund(id, '--reason', 'ticket 3')
      assert.deepEqual([none.json.code, none.json.leftCents], ['above_refundable', 0])
    },
  )

  await t.test('above the limit of one operator, after the approval of another', async () => {
    const { id, key } = await paid()
    const requested = await refund(id, '--reason', 'large')
    assert.deepEqual([requested.code, requested.json.code], [1, 'approval_needed'], requested.err)
    const { proposalId } = requested.json
    assert.equal((await alice('proposals', 'approve', proposalId)).json.code, 'own_proposal')
    assert.equal(await app.balance(key), 2_500)
    const approved = await bob('proposals', 'approve', proposalId)
    assert.deepEqual([approved.code, approved.json.refundCents], [0, 2_500], approved.err)
    await app.untilBalance(key, 0)
    assert.equal((await bob('proposals', 'approve', proposalId)).json.code, 'already_applied')
  })

  await t.test('in the console, where button and confirmation show the amount', async () => {
    const { id, key } = await paid('card', 1_500)
    const operator = await staffBrowser(app, ['operator'])
    const path = `/console/operator/deposits/${id}`
    assert.match((await operator.get(path)).html, /Refund \$15\.00/)
    const page = await operator.get(`${path}/refund`)
    assert.match(page.html, /value="15\.00"/)
    const send = (fields: Record<string, string>) =>
      operator.post(`${path}/refund`, { form: hiddenField(page, 'form'), ...fields })
    assert.equal((await send({ amount: '15.01', reason: 'x' })).status, 400)
    assert.equal((await send({ amount: '5', reason: '' })).status, 400)
    const { to } = await send({ amount: '5', reason: 'ticket 4' })
    assert.equal(to, `${path}/refund/confirm?amount=5.00&reason=ticket+4`)
    const confirmation = await operator.get(to!)
    assert.match(confirmation.html, /<button class="danger">Refund \$5\.00 to the card<\/button>/)
    const fields = {
      form: hiddenField(confirmation, 'form'),
      amount: hiddenField(confirmation, 'amount'),
      reason: hiddenField(confirmation, 'reason'),
    }
    const answers = await Promise.all([1, 2].map(() => operator.post(`${path}/refund/confirm`, fields)))
    assert.ok(answers.some((answer) => answer.to === path))
    await until(async () => /Refund \$10\.00.*DepositRefundMade/s.test((await operator.get(path)).html))
    assert.equal(await app.balance(key), 1_000)
    const account = await operator.get(`/console/trail/dep_${'0'.repeat(32)}`)
    assert.equal(account.status, 404)
  })

  await t.test('refused before anything is requested', async () => {
    const { id, key } = await paid()
    const refused = async (...more: readonly string[]) =>
      (await refund(id, '--reason', 'no', ...more)).json.code
    assert.equal(await refused('--cents', '2501'), 'above_refundable')
    const order = { product_id: 'residential-premium', quantity: 1 }
    assert.equal((await app.client.post('/api/v1/orders', order, { key })).status, 201)
    assert.equal(await refused('--cents', '2000'), 'insufficient_balance')
    assert.equal((await refund(`dep_${'0'.repeat(32)}`, '--reason', 'no')).json.code, 'not_found')
    const open = await app.openDeposit(key, { amount_cents: 2_500, method: 'card' })
    await app.untilDeposit(key, open.deposit_id, { status: 'awaiting_payment' })
    assert.equal((await refund(open.deposit_id, '--reason', 'no')).json.code, 'not_paid')
    const crypto = await paid('crypto')
    const { json } = await refund(crypto.id, '--reason', 'no')
    assert.deepEqual([json.code, json.provider], ['provider_cannot_refund', 'btcpay'])
    const reseller = await app.resellerWithGateways('Nova', 'nowpayments')
    const deposit = await app.openDeposit(
      reseller.key,
      { amount_cents: 2_500, method: 'card' },
      asCustomer('alice', 'alice-1'),
    )
    await app.act(deposit.deposit_id, 'pay', 2_500)
    await app.untilDeposit(reseller.key, deposit.deposit_id, { status: 'paid' })
    assert.equal((await refund(deposit.deposit_id, '--reason', 'no')).json.code, 'gateway_of_reseller')
  })

  await t.test('refused without its gateway, which holds nothing', async () => {
    const { id, key } = await paid()
    const without = await operate(['deposits', 'refund', '--deposit', id, '--reason', 'no', '--json'], {
      ...app.env,
      FAREBOX_SANDBOX: 'off',
    })
    assert.equal(JSON.parse(without.out).code, 'gateway_not_configured', without.err)
    assert.match(without.err, /at the gateway sandbox-stripe, which is not configured; configured: none/)
    assert.equal(await app.balance(key), 2_500)
  })

  await t.test('while Stripe does not answer it waits, and what Stripe refuses is a change', async () => {
    const { id, key } = await paid()
    await app.switches({ down: true })
    assert.equal((await refund(id, '--cents', '400', '--reason', 'outage')).code, 0)
    assert.equal(await app.balance(key), 2_100)
    await app.switches({ down: false, lost: 1 })
    await app.untilDeposit(key, id, { refunded_cents: 400 })
    assert.equal(await app.balance(key), 2_100)
    await app.act(id, 'dispute')
    const requested = await refund(id, '--cents', '500', '--reason', 'disputed')
    assert.equal(requested.code, 0, requested.err)
    const changes = await until(async () => {
      const { json } = await alice('deposits', 'changes')
      return json.changes.length > 0 && json.changes
    })
    assert.deepEqual(
      changes.map(({ depositId, change, amount }: Record<string, string>) => [depositId, change, amount]),
      [[id, 'refund_refused', '5.00 usd']],
    )
    assert.match(changes[0].reference, / charge_disputed$/)
    assert.equal(await app.balance(key), 2_100)
    await app.switches({ lost: 0 })
  })

  await t.test('the log passes verification', async () => {
    for (const command of ['seal', 'verify']) {
      const ran = await operate(['ledger', command], app.env)
      assert.equal(ran.code, 0, `${ran.out}${ran.err}`)
    }
  })
})
