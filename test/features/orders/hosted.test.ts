import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { until } from '../../support/until.ts'
import { addresses, openStore, openTown } from './store.ts'

const orders = '/api/v1/orders'
const traffic = (quantity: number, more: object = {}) => ({
  product_id: 'residential-premium',
  quantity,
  ...more,
})
describe('an own order on a rail', () => {
  test('awaits its payment and is placed by it, in one append', async (t) => {
    const town = await openTown(t)
    const { key } = await town.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'own' }
    const made = await town.client.post(orders, traffic(5, { method: 'card' }), { key, headers })
    assert.equal(made.status, 201, made.text)
    const { orderId, payUrl, amountCents } = made.body
    assert.deepEqual([made.body.status, made.body.planId], ['awaiting_payment', null])
    assert.match(payUrl, /^http/)
    const again = await town.client.post(orders, traffic(5, { method: 'card' }), { key, headers })
    assert.deepEqual([again.status, again.body], [200, made.body])
    assert.deepEqual(await town.read(orderId, key), made.body)
    const listed = await town.client.get(`${orders}?status=awaiting_payment`, { key })
    assert.deepEqual([listed.body.total, listed.body.orders[0].payUrl], [1, payUrl])
    const { deposits } = (await town.client.get('/api/v1/deposits', { key })).body
    const [deposit] = deposits
    assert.deepEqual(
      [deposit.for_order, deposit.order_id, deposit.amount_cents],
      [true, orderId, amountCents],
    )
    await town.act(deposit.deposit_id, 'pay', amountCents + 77)
    const done = await town.reads(orderId, 'completed', key)
    assert.deepEqual([done.payUrl, done.balanceCents], [null, 77])
    assert.match(done.planId, /^pln_/)
    assert.equal(await town.balance(key), 77)
    await town.reads(orderId, 'completed', key)
    const { transactions } = (await town.client.get('/api/v1/wallet/transactions', { key })).body
    assert.deepEqual(
      transactions.map(({ type }: { type: string }) => type),
      ['order', 'deposit'],
    )
    await town.sound()
  })

  test('requested thirty times at once under one key is created once: 201, and 200 for every other', async (t) => {
    const town = await openTown(t)
    const { key } = await town.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'thirty' }
    const answers = await Promise.all(
      Array.from({ length: 30 }, () =>
        town.client.post(orders, traffic(1, { method: 'card' }), { key, headers }),
      ),
    )
    const said = answers.map(
      ({ status, headers: answered }) => `${status} ${answered.get('idempotency-replayed') ?? 'made'}`,
    )
    assert.deepEqual(said.sort(), [...Array(29).fill('200 true'), '201 made'])
    assert.equal(new Set(answers.map(({ body }) => `${body.orderId} ${body.payUrl}`)).size, 1)
    assert.equal((await town.client.get('/api/v1/deposits', { key })).body.total, 1)
    await town.sound()
  })

  test('shows the charge and its deposit, and so do its read, the list and the command', async (t) => {
    const town = await openTown(t)
    const { key, accountId } = await town.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'small' }
    const { body } = await town.client.post(orders, traffic(1, { method: 'card' }), { key, headers })
    assert.deepEqual([body.amountCents, body.chargeCents], [550, 1_000])
    const deposit = (await town.client.get(`/api/v1/deposits/${body.depositId}`, { key })).body
    assert.deepEqual(
      [deposit.amount_cents, deposit.pay_url, deposit.order_id],
      [body.chargeCents, body.payUrl, body.orderId],
    )
    assert.match(await (await fetch(body.payUrl)).text(), /10\.00/)
    const again = await town.client.post(orders, traffic(1, { method: 'card' }), { key, headers })
    assert.deepEqual(again.body, body)
    assert.deepEqual(await town.read(body.orderId, key), body)
    assert.deepEqual((await town.client.get(orders, { key })).body.orders, [body])
    const { accountId: of, refunds, ...shown } = await town.run('orders', 'show', body.orderId)
    assert.deepEqual([of, refunds, shown], [accountId, [], body])
    assert.deepEqual((await town.run('orders', 'list', '--account', accountId)).orders, [
      { accountId, ...body },
    ])

    await town.act(body.depositId, 'pay')
    const done = await town.reads(body.orderId, 'completed', key)
    assert.deepEqual([done.depositId, done.chargeCents, done.payUrl], [body.depositId, null, null])
    assert.equal((await town.client.get(`/api/v1/deposits/${body.depositId}`, { key })).body.pay_url, null)
  })

  test('has no payment page after its invoice expired, even without a callback', async (t) => {
    const town = await openTown(t)
    const { key } = await town.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'expires' }
    const { body } = await town.client.post(orders, traffic(5, { method: 'card' }), { key, headers })
    assert.match(body.payUrl, /^http/)
    await town.switches({ down: true })
    town.ahead(25 * 60 * 60 * 1000)
    const dead = { ...body, payUrl: null }
    assert.deepEqual(await town.read(body.orderId, key), dead)
    assert.deepEqual((await town.client.get(orders, { key })).body.orders, [dead])
    const again = await town.client.post(orders, traffic(5, { method: 'card' }), { key, headers })
    assert.deepEqual([again.status, again.body], [200, dead])
    assert.equal((await town.client.get(`/api/v1/deposits/${body.depositId}`, { key })).body.pay_url, null)
  })

  test('is canceled when its invoice closes, and later money is credited', async (t) => {
    const town = await openTown(t, { FAREBOX_DEPOSIT_LOOK_MS: '500' })
    const { key } = await town.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'closes' }
    const { body } = await town.client.post(orders, traffic(5, { method: 'crypto' }), { key, headers })
    await town.act(body.depositId, 'expire')
    const canceled = await town.reads(body.orderId, 'canceled', key)
    assert.deepEqual([canceled.payUrl, canceled.cancelReason], [null, 'invoice_expired'])
    assert.ok(Date.parse(canceled.canceledAt) >= Date.parse(canceled.createdAt))
    const again = await town.client.post(orders, traffic(5, { method: 'crypto' }), { key, headers })
    assert.deepEqual([again.status, again.body], [200, canceled])
    await town.act(body.depositId, 'pay', body.amountCents)
    await until(async () => (await town.balance(key)) === body.amountCents)
    assert.equal((await town.read(body.orderId, key)).status, 'canceled')
    await town.sound()
  })

  test('is refused before any invoice when it cannot be placed', async (t) => {
    const town = await openTown(t)
    const { key } = await town.customer({ cents: 0 })
    const refused = async (json: object, status: number, code: string) => {
      const answer = await town.client.post(orders, json, { key })
      assert.deepEqual([answer.status, answer.body.code], [status, code], answer.text)
    }
    const servers = { product_id: 'ipv4-datacenter', fulfillment_meta: { country: 'CAN', period_days: 30 } }
    await refused({ ...servers, quantity: 999, method: 'card' }, 409, 'out_of_stock')
    await refused(traffic(5_000, { method: 'card' }), 400, 'invalid_amount')
    await refused(traffic(5, { method: 'pix' }), 403, 'deposits_not_available')
    await refused(traffic(5, { method: 'shells' }), 400, 'unsupported_method')
    await refused(traffic(5, { method: 'card', expected_amount_cents: 1 }), 409, 'price_changed')
    await town.switches({ down: true })
    await refused(traffic(5, { method: 'card' }), 502, 'gateway_unavailable')
    assert.equal((await town.client.get(orders, { key })).body.total, 0)
    await town.sound()
  })
})

describe('an order for a customer that is short of credit', () => {
  test('has a payment page, the same on every retry, and is placed under its key when that is paid', async (t) => {
    const town = await openStore(t)
    const { quote } = town
    const input = addresses(4, { method: 'card' })
    const short = await town.order(input, 'k', 'alice')
    assert.equal(short.status, 402, short.text)
    const { code, shortfallCents, chargeCents, depositId, payUrl } = short.body
    assert.equal(code, 'customer_credit_insufficient')
    assert.equal(shortfallCents, quote.amountCents)
    assert.equal(chargeCents, Math.max(shortfallCents, 1_000))
    const page = await (await fetch(payUrl)).text()
    assert.match(page, /SANDBOX/)
    assert.match(page, /Ann &amp; Co/)
    const deposit = await town.deposit(depositId)
    assert.deepEqual([deposit.for_order, deposit.customer], [true, 'alice'])
    const waiting = await town.read(deposit.order_id)
    assert.deepEqual([waiting.status, waiting.payUrl], ['awaiting_payment', payUrl])

    // The price is frozen for the life of the invoice.
    await town.run('reseller', 'set', '--account', town.reseller.accountId, '--markup', '3')
    const path = '/api/v1/products/isp-static/price?quantity=4&country=USA&period_days=30'
    await until(
      async () =>
        (await town.client.get(path, { key: town.reseller.key })).body.amountCents > quote.amountCents,
    )
    const { requestId: _a, ...first } = short.body
    const { requestId: _b, ...second } = (await town.order(input, 'k', 'alice')).body
    assert.deepEqual(second, first)
    const other = await town.order(input, 'k', 'bob')
    assert.deepEqual([other.status, other.body.code], [409, 'idempotency_conflict'])

    await town.act(depositId, 'pay', chargeCents)
    const done = await town.reads(deposit.order_id, 'completed')
    assert.deepEqual([done.amountCents, done.yourCostCents], [quote.amountCents, quote.yourCostCents])
    assert.equal(await town.creditOf('alice'), chargeCents - quote.amountCents)
    const replay = await town.order(input, 'k', 'alice')
    assert.deepEqual([replay.status, replay.body.orderId], [200, deposit.order_id])
    assert.equal(replay.headers.get('idempotency-replayed'), 'true')
    await town.sound()
  })

  test('is placed by the retry itself when no callback arrived', async (t) => {
    const town = await openStore(t)
    await town.switches({ lost: 1 })
    const short = await town.order(addresses(4, { method: 'card' }), 'k', 'alice')
    await town.act(short.body.depositId, 'pay')
    const placed = await town.order(addresses(4, { method: 'card' }), 'k', 'alice')
    assert.deepEqual([placed.status, placed.body.status], [200, 'completed'], placed.text)
    await town.sound()
  })

  test('that is underpaid keeps the payment, and the next retry invoices the rest', async (t) => {
    const town = await openStore(t)
    const input = addresses(4, { method: 'card' })
    const short = await town.order(input, 'k', 'alice')
    await town.act(short.body.depositId, 'expire')
    const next = await town.order(input, 'k', 'alice')
    assert.equal(next.status, 402, next.text)
    assert.notEqual(next.body.depositId, short.body.depositId)
    await town.run(
      ...['customers', 'credit', '--account', town.reseller.accountId, '--customer', 'alice'],
      ...['--cents', '100', '--reference', 'cash'],
    )
    await town.act(next.body.depositId, 'expire')
    const rest = await town.order(input, 'k', 'alice')
    assert.equal(rest.body.shortfallCents, town.quote.amountCents - 100)
    await town.run(
      ...['customers', 'credit', '--account', town.reseller.accountId, '--customer', 'alice'],
      ...['--cents', String(town.quote.amountCents - 100), '--reference', 'cash 2'],
    )
    const placed = await town.order(input, 'k', 'alice')
    assert.deepEqual([placed.status, placed.body.status], [200, 'completed'], placed.text)
    await town.act(rest.body.depositId, 'pay')
    await until(async () => (await town.creditOf('alice')) === rest.body.chargeCents)
    await town.sound()
  })

  test('has no payment page without a live rail, and none above $5,000', async (t) => {
    const town = await openStore(t)
    for (const input of [addresses(4), addresses(4, { method: 'crypto' }), addresses(4, { method: 'pix' })]) {
      const short = await town.order(input, JSON.stringify(input), 'alice')
      assert.equal(short.body.code, 'customer_credit_insufficient', short.text)
      assert.deepEqual(
        [short.body.payUrl, short.body.depositId, short.body.chargeCents],
        [undefined, undefined, undefined],
      )
    }
    await town.run(
      ...['wallet', 'credit', '--account', town.reseller.accountId],
      ...['--cents', '10000000', '--reference', 'rich'],
    )
    const dear = await town.order(traffic(2_000, { method: 'card' }), 'dear', 'alice')
    assert.deepEqual(
      [dear.body.code, dear.body.payUrl],
      ['customer_credit_insufficient', undefined],
      dear.text,
    )
    await town.sound()
  })

  test('opens no invoice while the wallet of the reseller is short', async (t) => {
    const town = await openStore(t)
    const { accountId, key } = town.reseller
    const cents = await town.balance(key)
    await town.run(
      'wallet',
      'adjust',
      '--account',
      accountId,
      '--cents',
      String(1 - cents),
      '--reference',
      'x',
    )
    const short = await town.order(addresses(4, { method: 'card' }), 'k', 'alice')
    assert.deepEqual([short.status, short.body.code], [402, 'insufficient_balance'])
    assert.equal((await town.client.get('/api/v1/deposits', { key })).body.total, 0)
    await town.sound()
  })

  test('whose reseller runs short before the payment waits, and is placed by the next credit', async (t) => {
    const town = await openStore(t)
    const { accountId, key } = town.reseller
    const short = await town.order(addresses(4, { method: 'card' }), 'k', 'alice')
    const cents = await town.balance(key)
    await town.run(
      'wallet',
      'adjust',
      '--account',
      accountId,
      '--cents',
      String(1 - cents),
      '--reference',
      'x',
    )
    await town.act(short.body.depositId, 'pay')
    const { order_id: orderId } = await town.deposits(short.body.depositId, { status: 'paid' })
    const held = await town.read(orderId)
    assert.deepEqual([held.status, held.failureReason], ['awaiting_payment', 'insufficient_balance'])
    const retry = await town.order(addresses(4, { method: 'card' }), 'k', 'alice')
    assert.deepEqual([retry.status, retry.body.code], [402, 'insufficient_balance'])
    assert.equal(await town.creditOf('alice'), short.body.chargeCents)
    await town.run('wallet', 'credit', '--account', accountId, '--cents', '100000', '--reference', 'more')
    await town.reads(orderId, 'completed')
    assert.equal(await town.creditOf('alice'), short.body.chargeCents - town.quote.amountCents)
    await town.sound()
  })

  test('that is sold out when it is paid fails, and the credit stays', async (t) => {
    const town = await openStore(t)
    const { key } = town.reseller
    const few = {
      product_id: 'isp-static',
      quantity: 20,
      fulfillment_meta: { country: 'POL', period_days: 30 },
    }
    const short = await town.order({ ...few, method: 'card' }, 'k', 'alice')
    assert.equal(short.status, 402, short.text)
    const rest = await town.order({ ...few, quantity: 50 }, 'own')
    assert.equal(rest.status, 201, rest.text)
    const before = await town.balance(key)
    await town.act(short.body.depositId, 'pay')
    const { order_id: orderId } = await town.deposits(short.body.depositId, { status: 'paid' })
    const failed = await town.reads(orderId, 'failed')
    assert.equal(failed.failureReason, 'out_of_stock')
    assert.equal(await town.creditOf('alice'), short.body.chargeCents)
    assert.equal(await town.balance(key), before)
    await town.sound()
  })
})
