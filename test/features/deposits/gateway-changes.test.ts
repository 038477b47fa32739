import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listGatewayChanges } from '../../../projections/deposits.ts'
import { asCustomer } from '../../support/app-actions.ts'
import { operate } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** The open changes of a deposit, as operators see them. */
const openChanges = async (app: TestApp, depositId: string) => {
  const rows = await listGatewayChanges(app.core.db, { all: false, limit: 100, offset: 0 })
  return rows
    .filter((row) => row.depositId === depositId)
    .map(({ change, amount }) => (amount === null ? change : `${change} ${amount}`))
    .sort()
}

const untilChanges = async (app: TestApp, depositId: string, wanted: readonly string[]): Promise<void> => {
  let last: readonly string[] = []
  try {
    await until(async () => {
      last = await openChanges(app, depositId)
      return last.length >= wanted.length
    })
  } catch {}
  assert.deepEqual(last, wanted)
}

test('a provider change that is not booked is an open item, and moves no wallet', async (t) => {
  const app = await testApp(t)
  const paid = async (method: string, cents = 2_500) => {
    const account = await app.customer({ cents: 0 })
    const deposit = await app.openDeposit(account.key, { amount_cents: 2_500, method })
    const id = deposit.deposit_id as string
    const did = await app.act(id, 'pay', cents)
    assert.equal(did.status, 200, JSON.stringify(did.body))
    await app.untilBalance(account.key, cents)
    return { ...account, id }
  }

  await t.test('a dispute that returns a part returns this part to the wallet', async () => {
    const { id, key } = await paid('card')
    await app.act(id, 'dispute')
    await app.untilBalance(key, 0)
    await app.act(id, 'close-dispute', 1_000)
    await app.untilBalance(key, 1_000)
    await app.untilDeposit(key, id, { status: 'charged_back', charged_back_cents: 1_500 })
    assert.deepEqual(await openChanges(app, id), [])
  })

  await t.test('a dispute that is won returns everything, and leaves no open item', async () => {
    const { id, key } = await paid('card')
    await app.act(id, 'dispute')
    await app.untilBalance(key, 0)
    await app.act(id, 'close-dispute', 2_500)
    await app.untilBalance(key, 2_500)
    assert.deepEqual(await openChanges(app, id), [])
  })

  await t.test('an invoice in another currency', async () => {
    const { key } = await app.customer({ cents: 0 })
    const { deposit_id: id } = await app.openDeposit(key, { amount_cents: 2_500, method: 'card' })
    await app.act(id, 'euros')
    await app.act(id, 'pay')
    await untilChanges(app, id, ['other_currency eur'])
    await app.untilDeposit(key, id, { status: 'failed', credited_cents: 0 })
    assert.equal(await app.balance(key), 0)
  })

  await t.test('an invoice in another currency that expires, with its order', async () => {
    const { key } = await app.customer({ cents: 0 })
    const order = { product_id: 'residential-premium', quantity: 5, method: 'crypto' }
    const { body } = await app.client.post('/api/v1/orders', order, { key })
    await app.act(body.depositId, 'euros')
    await app.act(body.depositId, 'expire')
    const { cancelReason } = await app.untilOrder(key, body.orderId, 'canceled')
    assert.equal(cancelReason, 'invoice_expired')
    assert.deepEqual(await openChanges(app, body.depositId), [])
  })

  await t.test('an invoice of BTCPay that was marked as settled without money', async () => {
    const { key } = await app.customer({ cents: 0 })
    const { deposit_id: id } = await app.openDeposit(key, { amount_cents: 2_500, method: 'crypto' })
    await app.act(id, 'mark-settled')
    await untilChanges(app, id, ['paid_without_money 25.00 usd'])
    assert.equal(await app.balance(key), 0)
    // Money that comes all the same is credited, and closes the item.
    await app.act(id, 'pay', 2_500)
    await app.untilBalance(key, 2_500)
    await until(async () => (await openChanges(app, id)).length === 0, { what: 'the closed item' })
  })

  await t.test('a refund in the dashboard of BTCPay, each part once', async () => {
    const { id, key } = await paid('crypto')
    await app.act(id, 'refund', 700)
    await untilChanges(app, id, ['refunded 7.00 usd'])
    await app.act(id, 'refund', 300)
    await untilChanges(app, id, ['refunded 10.00 usd', 'refunded 7.00 usd'])
    assert.equal(await app.balance(key), 2_500)
  })

  await t.test('an invoice of BTCPay that was marked as invalid after it was paid', async () => {
    const { id, key } = await paid('crypto')
    await app.act(id, 'mark-invalid')
    await untilChanges(app, id, ['marked_invalid 25.00 usd'])
    assert.equal(await app.balance(key), 2_500)
  })

  await t.test('a partial payment and a late payment are booked and leave no open item', async () => {
    const { id, key } = await paid('crypto', 1_000)
    await app.act(id, 'expire')
    await app.untilDeposit(key, id, { status: 'partially_paid', credited_cents: 1_000 })
    await app.act(id, 'pay', 1_500)
    await app.untilDeposit(key, id, { status: 'paid', credited_cents: 2_500 })
    assert.deepEqual(await openChanges(app, id), [])
  })

  await t.test("a payment that NOWPayments returned, on a reseller's own gateway", async () => {
    const reseller = await app.resellerWithGateways('Nova', 'nowpayments')
    const deposit = await app.openDeposit(
      reseller.key,
      { amount_cents: 2_500, method: 'crypto' },
      asCustomer('alice', 'alice-1'),
    )
    await app.act(deposit.deposit_id, 'pay', 2_500)
    await until(async () => (await app.customerCredit(reseller.accountId, 'alice')) === 2_500)
    await app.act(deposit.deposit_id, 'refund', 2_500)
    await untilChanges(app, deposit.deposit_id, ['refunded 125 coins'])
    assert.equal(await app.customerCredit(reseller.accountId, 'alice'), 2_500)
  })

  await t.test('operators list and close open items', async () => {
    const { id } = await paid('crypto')
    await app.act(id, 'mark-invalid')
    await untilChanges(app, id, ['marked_invalid 25.00 usd'])
    const listed = await operate(['deposits', 'changes', '--json'], app.env)
    assert.equal(listed.code, 0, listed.err)
    assert.ok(JSON.parse(listed.out).changes.some(({ depositId }: { depositId: string }) => depositId === id))
    const close = (number: string) =>
      operate(['deposits', 'review', id, number, '--note', 'taken back by hand'], app.env)
    assert.match((await close('1')).out, /closed/)
    assert.match((await close('1')).out, /it was closed before/)
    assert.equal((await close('2')).code, 2)
    await until(async () => (await openChanges(app, id)).length === 0)
  })

  await t.test('the log passes verification', async () => {
    for (const command of ['seal', 'verify']) {
      const ran = await operate(['ledger', command], app.env)
      assert.equal(ran.code, 0, `${ran.out}${ran.err}`)
    }
  })
})
