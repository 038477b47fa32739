import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../../support/until.ts'
import { openStore } from '../orders/store.ts'

/** A store whose customers pay in crypto there. */
const openCrypto = async (t: Parameters<typeof openStore>[0], provider: 'btcpay' | 'nowpayments') => {
  const store = await openStore(t)
  const { accountId, key } = store.reseller
  await store.run(
    ...['reseller', 'gateway', '--account', accountId],
    ...['--rail', 'crypto', '--provider', provider, '--sandbox'],
  )
  await until(async () => {
    const headers = { 'X-Reseller-Customer-Id': 'probe', 'Idempotency-Key': 'probe' }
    const json = { amount_cents: 1000, method: 'crypto' }
    return (await store.client.post('/api/v1/deposits', json, { key, headers })).status === 200
  })
  const input = { ...store.four, method: 'crypto' }
  return { ...store, ask: () => store.order(input, 'k', 'alice') }
}

test('BTCPay: a partial payment is credited while the invoice is open, the same page takes the rest, and the order is placed', async (t) => {
  const store = await openCrypto(t, 'btcpay')
  const short = await store.ask()
  assert.equal(short.body.code, 'customer_credit_insufficient', short.text)
  const { depositId, payUrl, chargeCents } = short.body
  const part = Math.floor(chargeCents * 0.4)
  await store.act(depositId, 'pay', part)
  const waiting = await store.deposits(depositId, { credited_cents: part })
  assert.equal(waiting.status, 'awaiting_payment')
  assert.equal(await store.creditOf('alice'), part)
  const again = await store.ask()
  assert.deepEqual([again.status, again.body.depositId, again.body.payUrl], [402, depositId, payUrl])
  assert.equal((await store.read(waiting.order_id)).status, 'awaiting_payment')
  await store.act(depositId, 'pay', chargeCents - part)
  await store.deposits(depositId, { status: 'paid', credited_cents: chargeCents })
  await store.reads(waiting.order_id, 'completed')
  assert.equal(await store.creditOf('alice'), chargeCents - store.quote.amountCents)
  await store.sound()
})

test('BTCPay: an invoice that closes short keeps the partial payment as credit, and the next retry invoices the rest', async (t) => {
  const store = await openCrypto(t, 'btcpay')
  const { depositId, chargeCents } = (await store.ask()).body
  const part = chargeCents - 400
  await store.act(depositId, 'pay', part)
  await store.act(depositId, 'expire')
  const { order_id: orderId } = await store.deposits(depositId, {
    status: 'partially_paid',
    credited_cents: part,
  })
  assert.equal((await store.read(orderId)).status, 'awaiting_payment')
  const rest = await store.ask()
  assert.deepEqual([rest.status, rest.body.shortfallCents, rest.body.chargeCents], [402, 400, 400], rest.text)
  assert.notEqual(rest.body.depositId, depositId)
  await store.act(rest.body.depositId, 'pay')
  await store.reads(orderId, 'completed')
  // What still comes for the first invoice is credit, and nothing more.
  await store.act(depositId, 'pay', 400)
  await store.deposits(depositId, { status: 'paid', credited_cents: chargeCents })
  await until(async () => (await store.creditOf('alice')) === 400)
  await store.sound()
})

test('NOWPayments: a partial payment closes the invoice, the next retry invoices the rest, and later money for the first is credited', async (t) => {
  const store = await openCrypto(t, 'nowpayments')
  const { depositId, chargeCents } = (await store.ask()).body
  const part = chargeCents - 500
  await store.act(depositId, 'pay', part)
  const { order_id: orderId } = await store.deposits(depositId, {
    status: 'partially_paid',
    credited_cents: part,
  })
  assert.equal((await store.read(orderId)).status, 'awaiting_payment')
  const rest = await store.ask()
  assert.deepEqual([rest.status, rest.body.shortfallCents, rest.body.chargeCents], [402, 500, 500], rest.text)
  // The payer sends the rest to the address that it knows: a repeated deposit there.
  await store.act(depositId, 'pay', 500)
  await store.deposits(depositId, { status: 'paid', credited_cents: chargeCents })
  assert.equal((await store.read(orderId)).status, 'awaiting_payment')
  const placed = await store.ask()
  assert.deepEqual([placed.status, placed.body.status], [200, 'completed'], placed.text)
  assert.equal(await store.creditOf('alice'), chargeCents - store.quote.amountCents)
  await store.act(rest.body.depositId, 'pay')
  await until(async () => (await store.creditOf('alice')) === chargeCents - store.quote.amountCents + 500)
  assert.equal((await store.read(orderId)).status, 'completed')
  await store.sound()
})

test('an own order on crypto that is paid in part is canceled when its invoice closes, and the payment stays in the wallet', async (t) => {
  const store = await openStore(t)
  const { key } = await store.customer({ cents: 0 })
  const json = { product_id: 'residential-premium', quantity: 5, method: 'crypto' }
  const { body } = await store.client.post('/api/v1/orders', json, { key })
  const [deposit] = (await store.client.get('/api/v1/deposits', { key })).body.deposits
  await store.act(deposit.deposit_id, 'pay', 200)
  await store.reads(body.orderId, 'awaiting_payment', key)
  await store.untilBalance(key, 200)
  await store.act(deposit.deposit_id, 'expire')
  await store.reads(body.orderId, 'canceled', key)
  assert.equal(await store.balance(key), 200)
  await store.sound()
})
