import assert from 'node:assert/strict'
import { test } from 'node:test'
import { asCustomer } from '../../support/app-actions.ts'
import { operate, operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test('a refund at the provider takes back the credit, and a refund that fails returns it', async (t) => {
  const app = await testApp(t, { own: true, settings: { FAREBOX_DEPOSIT_LOOK_MS: '500' } })
  const paid = async (method: string, cents = 2_500) => {
    const account = await app.customer({ cents: 0 })
    const { deposit_id: id } = await app.openDeposit(account.key, { amount_cents: cents, method })
    await app.act(id, 'pay', cents)
    await app.untilBalance(account.key, cents)
    return { ...account, id: id as string }
  }
  const wallet = async (key: string) => (await app.client.get('/api/v1/wallet', { key })).body
  const transactions = async (key: string) =>
    (await app.client.get('/api/v1/wallet/transactions', { key })).body.transactions as {
      type: string
      amountCents: number
      depositId: string | null
    }[]

  await t.test('Stripe: several parts, each once, and one that fails', async () => {
    const { id, key, accountId } = await paid('card')
    await app.act(id, 'refund', 700)
    await app.untilBalance(key, 1_800)
    await app.act(id, 'refund', 300)
    await app.untilDeposit(key, id, { status: 'paid', credited_cents: 2_500, refunded_cents: 1_000 })
    await app.act(id, 'fail-refund')
    await app.untilDeposit(key, id, { status: 'paid', refunded_cents: 700, charged_back_cents: 0 })
    assert.equal(await app.balance(key), 1_800)
    assert.deepEqual(
      (await transactions(key)).map(({ type, amountCents, depositId }) => [type, amountCents, depositId]),
      [
        ['deposit_refund', 300, id],
        ['deposit_refund', -300, id],
        ['deposit_refund', -700, id],
        ['deposit', 2_500, id],
      ],
    )
    const state = await app.accounts.read(accountId, {
      actor: { kind: 'operator', name: 'test' },
      correlationId: 'test',
    })
    assert.equal(state?.blocked, false)
  })

  await t.test('what the wallet does not cover is owed, and the next deposit pays it first', async () => {
    const { id, key } = await paid('card')
    const bought = await app.client.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 1 },
      { key },
    )
    assert.equal(bought.status, 201, bought.text)
    const { amountCents } = bought.body
    await app.act(id, 'refund', 2_500)
    await app.untilBalance(key, 0)
    const { deposit_id: next } = await app.openDeposit(key, { amount_cents: 2_000 })
    await app.act(next, 'pay', 2_000)
    await app.untilBalance(key, 2_000 - amountCents)
    assert.equal((await wallet(key)).balanceCents, 2_000 - amountCents)
  })

  await t.test('a lost callback is found by the hourly poll', async () => {
    const { id, key } = await paid('card')
    await app.switches({ lost: 1 })
    await app.act(id, 'refund', 200)
    await app.core.pool.query(
      `update work.dispute_looks set due_at = clock_timestamp() - interval '1 second'`,
    )
    await app.untilBalance(key, 2_300)
    await app.switches({ lost: 0 })
  })

  await t.test("on a reseller's own gateway it is the credit of the customer", async () => {
    const reseller = await app.resellerWithGateways('Nova', 'nowpayments')
    const deposit = await app.openDeposit(
      reseller.key,
      { amount_cents: 2_500, method: 'card' },
      asCustomer('alice', 'alice-1'),
    )
    await app.act(deposit.deposit_id, 'pay', 2_500)
    await until(async () => (await app.customerCredit(reseller.accountId, 'alice')) === 2_500)
    await app.act(deposit.deposit_id, 'refund', 1_000)
    await until(async () => (await app.customerCredit(reseller.accountId, 'alice')) === 1_500)
    await app.untilDeposit(reseller.key, deposit.deposit_id, { refunded_cents: 1_000 })
    assert.equal(await app.balance(reseller.key), 0)
  })

  await t.test('no change is left open, and the log passes verification', async () => {
    const listed = await operate(['deposits', 'changes', '--json'], app.env)
    assert.deepEqual(JSON.parse(listed.out).changes, [])
    for (const command of ['seal', 'verify']) {
      const ran = await operate(['ledger', command], app.env)
      assert.equal(ran.code, 0, `${ran.out}${ran.err}`)
    }
  })

  // The last one: the clock leaps, which a command does not know.
  await t.test(
    'a callback of a dispute that never arrives is replaced by polling, and one that arrived moves nothing again',
    async () => {
      const reseller = await app.resellerWithGateways('Acme', 'btcpay')
      const own = await app.customer({ cents: 0 })
      const disputed = await app.customer({ cents: 0 })
      const paidBy = async (key: string, headers = {}) => {
        const { deposit_id } = await app.openDeposit(key, { amount_cents: 1000 }, headers)
        await app.act(deposit_id, 'pay', 1000)
        await app.untilDeposit(key, deposit_id, { status: 'paid' })
        return deposit_id
      }
      const ids = [await paidBy(own.key), await paidBy(reseller.key, asCustomer('ann', 'ann'))]
      const heard = await paidBy(disputed.key)
      await app.act(heard, 'dispute')
      await app.untilBalance(disputed.key, 0)
      await app.switches({ lost: 1 })
      for (const id of ids) await app.act(id, 'dispute')
      // An hourly poll that runs during a leap counts as one after it, so one leap may cause none.
      const untilPolled = (check: () => Promise<boolean>) =>
        until(
          async () => {
            app.wait(61 * 60_000)
            return until(check, { timeoutMs: 3_000 })
          },
          { timeoutMs: 60_000 },
        )
      await untilPolled(async () => (await app.customerCredit(reseller.accountId, 'ann')) === 0)
      await app.untilBalance(own.key, 0)
      // Each gateway is polled again, and the reported dispute is found with the other two.
      await untilPolled(async () => {
        const { rows } = await app.core.pool.query<{ done: boolean }>(
          "select finished_at is not null as done from work.gateway_inbox where event_id like 'found dp_%'",
        )
        return rows.length === 3 && rows.every(({ done }) => done)
      })
      for (const { accountId } of [own, disputed]) {
        const { availableMicros, receivableMicros } = await app.wallets.read(accountId, operator)
        assert.deepEqual([availableMicros, receivableMicros], [0, 0])
      }
      assert.equal((await app.customerWallet(reseller.accountId, 'ann')).receivableMicros, 0)
    },
  )
})
