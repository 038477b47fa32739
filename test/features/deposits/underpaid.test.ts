import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { asCustomer } from '../../support/app-actions.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** A reseller whose customers pay in crypto too. */
const openCrypto = async (t: TestContext, provider: 'btcpay' | 'nowpayments') => {
  const app = await testApp(t, { with: ['cardReseller'] })
  const { accountId, key } = app.seller
  await app.run(
    ...['reseller', 'gateway', '--account', accountId],
    ...['--rail', 'crypto', '--provider', provider, '--sandbox'],
  )
  await until(async () => {
    const headers = asCustomer('probe', 'probe')
    const json = { amount_cents: 1000, method: 'crypto' }
    return (await app.client.post('/api/v1/deposits', json, { key, headers })).status === 200
  })
  const input = { ...app.four, method: 'crypto' }
  return { ...app, ask: (key = 'k') => app.seller.order('alice', input, key) }
}

test('BTCPay: a partial payment is credited while the invoice is open, the same page takes the rest, and the order is placed', async (t) => {
  const app = await openCrypto(t, 'btcpay')
  const { key } = app.seller
  const short = await app.ask()
  assert.equal(short.body.code, 'customer_credit_insufficient', short.text)
  const { depositId, payUrl, chargeCents } = short.body
  const part = Math.floor(chargeCents * 0.4)
  await app.act(depositId, 'pay', part)
  const waiting = await app.untilDeposit(key, depositId, { credited_cents: part })
  assert.equal(waiting.status, 'awaiting_payment')
  assert.equal(await app.listedCredit('alice'), part)
  const again = await app.ask()
  assert.deepEqual([again.status, again.body.depositId, again.body.payUrl], [402, depositId, payUrl])
  assert.equal((await app.readOrder(key, waiting.order_id)).status, 'awaiting_payment')
  await app.act(depositId, 'pay', chargeCents - part)
  await app.untilDeposit(key, depositId, { status: 'paid', credited_cents: chargeCents })
  await app.untilOrder(key, waiting.order_id, 'completed')
  assert.equal(await app.listedCredit('alice'), chargeCents - app.quote.amountCents)
  await app.verified()
})

test('BTCPay: an invoice that closes short cancels the order, the payment is credit, and the next order invoices the rest', async (t) => {
  const app = await openCrypto(t, 'btcpay')
  const { key } = app.seller
  const { depositId, chargeCents, orderId } = (await app.ask()).body
  const part = chargeCents - 400
  await app.act(depositId, 'pay', part)
  await app.act(depositId, 'expire')
  await app.untilDeposit(key, depositId, { status: 'partially_paid', credited_cents: part })
  const canceled = await app.untilOrder(key, orderId, 'canceled')
  assert.equal(canceled.cancelReason, 'underpaid')
  const rest = await app.ask('next')
  assert.deepEqual([rest.status, rest.body.shortfallCents, rest.body.chargeCents], [402, 400, 400], rest.text)
  await app.act(rest.body.depositId, 'pay')
  await app.untilOrder(key, rest.body.orderId, 'completed')
  // What still comes for the first invoice is credit, and nothing more.
  await app.act(depositId, 'pay', 400)
  await app.untilDeposit(key, depositId, { status: 'paid', credited_cents: chargeCents })
  await until(async () => (await app.listedCredit('alice')) === 400)
  await app.verified()
})

test('NOWPayments: a partial payment closes the invoice and cancels the order, and later money is credit for the next order', async (t) => {
  const app = await openCrypto(t, 'nowpayments')
  const { key } = app.seller
  const { depositId, chargeCents, orderId } = (await app.ask()).body
  const part = chargeCents - 500
  await app.act(depositId, 'pay', part)
  await app.untilDeposit(key, depositId, { status: 'partially_paid', credited_cents: part })
  assert.equal((await app.untilOrder(key, orderId, 'canceled')).cancelReason, 'underpaid')
  const rest = await app.ask('next')
  assert.deepEqual([rest.status, rest.body.shortfallCents, rest.body.chargeCents], [402, 500, 500], rest.text)
  // The payer sends the rest to the address that it knows: a repeated deposit there.
  await app.act(depositId, 'pay', 500)
  await app.untilDeposit(key, depositId, { status: 'paid', credited_cents: chargeCents })
  const placed = await app.ask('next')
  assert.deepEqual([placed.status, placed.body.status], [200, 'completed'], placed.text)
  assert.equal(await app.listedCredit('alice'), chargeCents - app.quote.amountCents)
  // NOWPayments cannot close an invoice: a payment of it becomes credit.
  await app.untilDeposit(key, rest.body.depositId, { status: 'canceled' })
  await app.act(rest.body.depositId, 'pay')
  await until(async () => (await app.listedCredit('alice')) === chargeCents - app.quote.amountCents + 500)
  assert.equal((await app.readOrder(key, orderId)).status, 'canceled')
  await app.verified()
})

test('an own order on crypto that is paid in part is canceled when its invoice closes, and the payment stays in the wallet', async (t) => {
  const app = await testApp(t, { with: ['cardReseller'] })
  const { key } = await app.customer({ cents: 0 })
  const json = { product_id: 'residential-premium', quantity: 5, method: 'crypto' }
  const { body } = await app.client.post('/api/v1/orders', json, { key })
  const [deposit] = (await app.client.get('/api/v1/deposits', { key })).body.deposits
  await app.act(deposit.deposit_id, 'pay', 200)
  await app.untilOrder(key, body.orderId, 'awaiting_payment')
  await app.untilBalance(key, 200)
  await app.act(deposit.deposit_id, 'expire')
  await app.untilOrder(key, body.orderId, 'canceled')
  assert.equal(await app.balance(key), 200)
  await app.verified()
})
