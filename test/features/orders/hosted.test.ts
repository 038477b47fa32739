import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { addresses } from '../../support/app-actions.ts'
import { signedIn } from '../../support/console.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const orders = '/api/v1/orders'
const traffic = (quantity: number, more: object = {}) => ({
  product_id: 'residential-premium',
  quantity,
  ...more,
})
/** Waits until the invoice has this status at the simulated provider. */
const untilClosed = (app: Pick<TestApp, 'sandbox'>, depositId: string, status: string) =>
  until(async () => {
    const invoice = await (await fetch(`${app.sandbox}/_sandbox/invoices/${depositId}`)).json()
    return (invoice as { status: string }).status === status
  })

describe('an own order on a rail', () => {
  test('awaits its payment and is placed by it, in one append', async (t) => {
    const app = await testApp(t)
    const { key } = await app.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'own' }
    const made = await app.client.post(orders, traffic(5, { method: 'card' }), { key, headers })
    assert.equal(made.status, 201, made.text)
    const { orderId, payUrl, amountCents } = made.body
    assert.deepEqual([made.body.status, made.body.planId], ['awaiting_payment', null])
    assert.match(payUrl, /^http/)
    const again = await app.client.post(orders, traffic(5, { method: 'card' }), { key, headers })
    assert.deepEqual([again.status, again.body], [200, made.body])
    assert.deepEqual(await app.readOrder(key, orderId), made.body)
    const listed = await app.client.get(`${orders}?status=awaiting_payment`, { key })
    assert.deepEqual([listed.body.total, listed.body.orders[0].payUrl], [1, payUrl])
    const { deposits } = (await app.client.get('/api/v1/deposits', { key })).body
    const [deposit] = deposits
    assert.deepEqual(
      [deposit.for_order, deposit.order_id, deposit.amount_cents],
      [true, orderId, amountCents],
    )
    await app.act(deposit.deposit_id, 'pay', amountCents + 77)
    const done = await app.untilOrder(key, orderId, 'completed')
    assert.deepEqual([done.payUrl, done.balanceCents], [null, 77])
    assert.match(done.planId, /^pln_/)
    assert.equal(await app.balance(key), 77)
    await app.untilOrder(key, orderId, 'completed')
    const { transactions } = (await app.client.get('/api/v1/wallet/transactions', { key })).body
    assert.deepEqual(
      transactions.map(({ type }: { type: string }) => type),
      ['order', 'deposit'],
    )
  })

  test('requested thirty times at once under one key is created once: 201, and 200 for every other', async (t) => {
    const app = await testApp(t)
    const { key } = await app.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'thirty' }
    const answers = await Promise.all(
      Array.from({ length: 30 }, () =>
        app.client.post(orders, traffic(1, { method: 'card' }), { key, headers }),
      ),
    )
    const said = answers.map(
      ({ status, headers: answered }) => `${status} ${answered.get('idempotency-replayed') ?? 'made'}`,
    )
    assert.deepEqual(said.sort(), [...Array(29).fill('200 true'), '201 made'])
    assert.equal(new Set(answers.map(({ body }) => `${body.orderId} ${body.payUrl}`)).size, 1)
    assert.equal((await app.client.get('/api/v1/deposits', { key })).body.total, 1)
  })

  test('shows the charge and its deposit, and so do its read, the list and the command', async (t) => {
    const app = await testApp(t)
    const { key, accountId } = await app.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'small' }
    const { body } = await app.client.post(orders, traffic(1, { method: 'card' }), { key, headers })
    assert.deepEqual([body.amountCents, body.chargeCents], [550, 1_000])
    const deposit = (await app.client.get(`/api/v1/deposits/${body.depositId}`, { key })).body
    assert.deepEqual(
      [deposit.amount_cents, deposit.pay_url, deposit.order_id],
      [body.chargeCents, body.payUrl, body.orderId],
    )
    assert.match(await (await fetch(body.payUrl)).text(), /10\.00/)
    const again = await app.client.post(orders, traffic(1, { method: 'card' }), { key, headers })
    assert.deepEqual(again.body, body)
    assert.deepEqual(await app.readOrder(key, body.orderId), body)
    assert.deepEqual((await app.client.get(orders, { key })).body.orders, [body])
    const { accountId: of, refunds, ...shown } = await app.run('orders', 'show', body.orderId)
    assert.deepEqual([of, refunds, shown], [accountId, [], body])
    assert.deepEqual((await app.run('orders', 'list', '--account', accountId)).orders, [
      { accountId, ...body },
    ])

    await app.act(body.depositId, 'pay')
    const done = await app.untilOrder(key, body.orderId, 'completed')
    assert.deepEqual([done.depositId, done.chargeCents, done.payUrl], [body.depositId, null, null])
    assert.equal((await app.client.get(`/api/v1/deposits/${body.depositId}`, { key })).body.pay_url, null)
  })

  test('charges a debt with the price, shows it until it is paid, and is placed', async (t) => {
    const app = await testApp(t)
    const { key, accountId } = await app.customer({ cents: 0 })
    await app.run(
      ...['wallet', 'adjust', '--account', accountId, '--cents', '-2200', '--reason', 'deposit_refund'],
      ...['--gateway', 'stripe', '--reference', 're_1'],
    )
    const short = await app.client.post(orders, traffic(2), { key })
    const { shortfallCents, owedCents, error } = short.body
    assert.deepEqual([short.status, shortfallCents, owedCents], [402, 3_300, 2_200], short.text)
    assert.match(error, /short by 3300 cents, including a debt of 2200 cents/)
    const headers = { 'Idempotency-Key': 'owes' }
    const { body } = await app.client.post(orders, traffic(2, { method: 'card' }), { key, headers })
    assert.deepEqual([body.amountCents, body.chargeCents, body.owedCents], [1_100, 3_300, 2_200])
    const again = await app.client.post(orders, traffic(2, { method: 'card' }), { key, headers })
    assert.deepEqual(again.body, body)
    assert.deepEqual(await app.readOrder(key, body.orderId), body)
    const { accountId: _, refunds: _none, ...shown } = await app.run('orders', 'show', body.orderId)
    assert.deepEqual(shown, body)
    await app.act(body.depositId, 'pay')
    const done = await app.untilOrder(key, body.orderId, 'completed')
    assert.deepEqual([done.owedCents, done.balanceCents], [undefined, 0])
  })

  test('says what is missing if a debt arises after its invoice was opened', async (t) => {
    const app = await testApp(t)
    const { key, accountId } = await app.customer({ cents: 0 })
    const { body } = await app.client.post(orders, traffic(2, { method: 'card' }), { key })
    assert.deepEqual([body.chargeCents, body.owedCents, body.shortfallCents], [1_100, undefined, undefined])
    await app.run(
      ...['wallet', 'adjust', '--account', accountId, '--cents', '-500', '--reason', 'deposit_refund'],
      ...['--gateway', 'stripe', '--reference', 're_1'],
    )
    const figures = async () => {
      const order = await app.readOrder(key, body.orderId)
      return [order.chargeCents, order.owedCents, order.shortfallCents]
    }
    assert.deepEqual(await figures(), [1_100, 500, 500])
    assert.equal((await app.run('orders', 'show', body.orderId)).shortfallCents, 500)
    await app.credit(accountId, 500)
    assert.deepEqual(await figures(), [1_100, undefined, undefined])
    await app.act(body.depositId, 'pay')
    await app.untilOrder(key, body.orderId, 'completed')
  })

  test('opens a page without the debt that was paid since, on a retry', async (t) => {
    const app = await testApp(t)
    const { key, accountId } = await app.customer({ cents: 0 })
    await app.run(
      ...['wallet', 'adjust', '--account', accountId, '--cents', '-2200', '--reason', 'deposit_refund'],
      ...['--gateway', 'stripe', '--reference', 're_1'],
    )
    const headers = { 'Idempotency-Key': 'owed' }
    const order = () => app.client.post(orders, traffic(1, { method: 'card' }), { key, headers })
    const first = (await order()).body
    assert.deepEqual([first.chargeCents, first.owedCents], [2_750, 2_200])
    await app.credit(accountId, 2_200)
    // $5.50, raised to the minimum of a card payment.
    const second = (await order()).body
    assert.deepEqual(
      [second.chargeCents, second.owedCents, second.orderId],
      [1_000, undefined, first.orderId],
    )
    assert.notEqual(second.depositId, first.depositId)
    assert.deepEqual((await order()).body, second)
    await app.act(second.depositId, 'pay')
    assert.equal((await app.untilOrder(key, first.orderId, 'completed')).balanceCents, 450)
  })

  test('is paid by another method: on another page, or from the wallet', async (t) => {
    const app = await testApp(t)
    const { key, accountId } = await app.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'methods' }
    const order = (method: string) => app.client.post(orders, traffic(5, { method }), { key, headers })
    const byCard = await order('card')
    const byCoins = await order('crypto')
    const { orderId, amountCents, createdAt } = byCard.body
    assert.deepEqual(
      [byCoins.status, byCoins.body.orderId, byCoins.body.method, byCoins.body.createdAt],
      [200, orderId, 'crypto', createdAt],
      byCoins.text,
    )
    assert.notEqual(byCoins.body.depositId, byCard.body.depositId)
    const short = await order('wallet')
    assert.deepEqual(
      [short.status, short.body.code, short.body.orderId, short.body.paidByCustomer],
      [402, 'insufficient_balance', orderId, false],
    )
    await app.credit(accountId, amountCents)
    const placed = await order('wallet')
    assert.deepEqual([placed.status, placed.body.status, placed.body.method], [200, 'completed', 'wallet'])
    for (const { depositId } of [byCard.body, byCoins.body])
      await app.untilDeposit(key, depositId, { status: 'canceled' })
    const tooLate = await app.client.post(`${orders}/${orderId}/cancel`, undefined, { key })
    assert.deepEqual([tooLate.status, tooLate.body.code], [409, 'order_not_waiting'])
  })

  test('is canceled when its invoice closes, and later money is credited', async (t) => {
    const app = await testApp(t)
    const { key } = await app.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'closes' }
    const { body } = await app.client.post(orders, traffic(5, { method: 'crypto' }), { key, headers })
    await app.act(body.depositId, 'expire')
    const canceled = await app.untilOrder(key, body.orderId, 'canceled')
    assert.deepEqual([canceled.payUrl, canceled.cancelReason], [null, 'invoice_expired'])
    assert.ok(Date.parse(canceled.canceledAt) >= Date.parse(canceled.createdAt))
    const again = await app.client.post(orders, traffic(5, { method: 'crypto' }), { key, headers })
    assert.deepEqual([again.status, again.body], [200, canceled])
    await app.act(body.depositId, 'pay', body.amountCents)
    await until(async () => (await app.balance(key)) === body.amountCents)
    assert.equal((await app.readOrder(key, body.orderId)).status, 'canceled')
  })

  test('is refused before any invoice when it cannot be placed', async (t) => {
    const app = await testApp(t)
    const { key } = await app.customer({ cents: 0 })
    const refused = async (json: object, status: number, code: string) => {
      const answer = await app.client.post(orders, json, { key })
      assert.deepEqual([answer.status, answer.body.code], [status, code], answer.text)
    }
    const servers = { product_id: 'ipv4-datacenter', fulfillment_meta: { country: 'CAN', period_days: 30 } }
    await refused({ ...servers, quantity: 999, method: 'card' }, 409, 'out_of_stock')
    await refused(traffic(5_000, { method: 'card' }), 400, 'invalid_amount')
    await refused(traffic(5, { method: 'pix' }), 403, 'deposits_not_available')
    await refused(traffic(5, { method: 'shells' }), 400, 'unsupported_method')
    await refused(traffic(5, { method: 'card', expected_amount_cents: 1 }), 409, 'price_changed')
    await app.switches({ down: true })
    await refused(traffic(5, { method: 'card' }), 502, 'gateway_unavailable')
    assert.equal((await app.client.get(orders, { key })).body.total, 0)
  })
})

describe('an order for a customer that is short of credit', () => {
  test('has a payment page, the same on every retry, and is placed under its key when that is paid', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { key } = app.seller
    const { quote } = app
    const input = app.four
    const short = await app.seller.order('alice', input, 'k')
    assert.equal(short.status, 402, short.text)
    const { code, shortfallCents, chargeCents, depositId, payUrl } = short.body
    assert.equal(code, 'customer_credit_insufficient')
    assert.equal(shortfallCents, quote.amountCents)
    assert.equal(chargeCents, Math.max(shortfallCents, 1_000))
    const page = await (await fetch(payUrl)).text()
    assert.match(page, /SANDBOX/)
    assert.match(page, /Ann &amp; Co/)
    const deposit = await app.readDeposit(key, depositId)
    assert.deepEqual([deposit.for_order, deposit.customer], [true, 'alice'])
    const waiting = await app.readOrder(key, deposit.order_id)
    assert.deepEqual([waiting.status, waiting.payUrl], ['awaiting_payment', payUrl])

    // The price is frozen for the life of the invoice.
    await app.run('reseller', 'set', '--account', app.seller.accountId, '--markup', '3')
    const path = '/api/v1/products/isp-static/price?quantity=4&country=USA&period_days=30'
    await until(
      async () => (await app.client.get(path, { key: app.seller.key })).body.amountCents > quote.amountCents,
    )
    const { requestId: _a, ...first } = short.body
    const { requestId: _b, ...second } = (await app.seller.order('alice', input, 'k')).body
    assert.deepEqual(second, first)
    const other = await app.seller.order('bob', input, 'k')
    assert.deepEqual([other.status, other.body.code], [409, 'idempotency_conflict'])

    await app.act(depositId, 'pay', chargeCents)
    const done = await app.untilOrder(key, deposit.order_id, 'completed')
    assert.deepEqual([done.amountCents, done.yourCostCents], [quote.amountCents, quote.yourCostCents])
    assert.equal(await app.listedCredit('alice'), chargeCents - quote.amountCents)
    const replay = await app.seller.order('alice', input, 'k')
    assert.deepEqual([replay.status, replay.body.orderId], [200, deposit.order_id])
    assert.equal(replay.headers.get('idempotency-replayed'), 'true')
  })

  test('pays the debt of the customer, too', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { key, accountId } = app.seller
    await app.run(
      ...['customers', 'adjust', '--account', accountId, '--customer', 'alice', '--cents', '-1430'],
      ...['--reason', 'deposit_refund', '--gateway', 'stripe', '--reference', 're_1'],
    )
    const { body } = await app.seller.order('alice', app.four, 'k')
    const needed = app.quote.amountCents + 1_430
    assert.deepEqual([body.owedCents, body.shortfallCents, body.chargeCents], [1_430, needed, needed])
    const deposit = await app.readDeposit(key, body.depositId)
    const { order_id: orderId } = deposit
    assert.deepEqual([deposit.amount_cents, deposit.owed_cents], [needed, 1_430])
    assert.match(await (await fetch(body.payUrl)).text(), /account credit, 14\.30 USD of it for a debt/)
    assert.equal((await app.readOrder(key, orderId)).owedCents, 1_430)
    await app.act(body.depositId, 'pay')
    await app.untilOrder(key, orderId, 'completed')
    assert.equal(await app.listedCredit('alice'), 0)
  })

  test('is placed by the retry itself when no callback arrived', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    await app.switches({ lost: 1 })
    const short = await app.seller.order('alice', app.four, 'k')
    await app.act(short.body.depositId, 'pay')
    const placed = await app.seller.order('alice', app.four, 'k')
    assert.deepEqual([placed.status, placed.body.status], [200, 'completed'], placed.text)
  })

  test('is canceled when its invoice closes, as an own order, and by the retry itself', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { key } = app.seller
    const expired = await app.seller.order('alice', app.four, 'expires')
    await app.act(expired.body.depositId, 'expire')
    const canceled = await app.untilOrder(key, expired.body.orderId, 'canceled')
    assert.deepEqual(
      [canceled.cancelReason, canceled.waitsFor, canceled.payUrl],
      ['invoice_expired', null, null],
    )
    const again = await app.seller.order('alice', app.four, 'expires')
    assert.deepEqual([again.status, again.body.status], [200, 'canceled'])

    await app.switches({ lost: 1 })
    const failed = await app.seller.order('alice', app.four, 'fails')
    await app.act(failed.body.depositId, 'fail')
    const retry = await app.seller.order('alice', app.four, 'fails')
    assert.deepEqual([retry.status, retry.body.cancelReason], [200, 'payment_failed'], retry.text)
    await app.switches({ lost: 0 })
  })

  test('is paid by another method on another page, and the first page takes no payment', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { key, accountId } = app.seller
    const gateway = ['reseller', 'gateway', '--account', accountId, '--sandbox', '--rail', 'crypto']
    await app.run(...gateway, '--provider', 'btcpay')
    const first = await app.seller.order('alice', app.four, 'k')
    const byCoins = { ...app.four, method: 'crypto' }
    const second = await until(async () => {
      const answer = await app.seller.order('alice', byCoins, 'k')
      return answer.body.depositId !== first.body.depositId && answer.body.payUrl && answer
    })
    assert.deepEqual([second.status, second.body.orderId], [402, first.body.orderId])
    assert.deepEqual((await app.seller.order('alice', byCoins, 'k')).body.depositId, second.body.depositId)
    const closed = await app.untilDeposit(key, first.body.depositId, { status: 'canceled' })
    assert.equal(closed.pay_url, null)
    await untilClosed(app, first.body.depositId, 'expired')
    // Back to the card: a page of its own, because the first one is closed.
    const third = await app.seller.order('alice', app.four, 'k')
    assert.equal(new Set([first, second, third].map(({ body }) => body.depositId)).size, 3)
    await app.act(third.body.depositId, 'pay')
    const done = await app.untilOrder(key, first.body.orderId, 'completed')
    assert.deepEqual([done.depositId, done.method], [third.body.depositId, 'card'])
    // BTCPay takes money for a closed invoice: it becomes credit.
    await app.untilDeposit(key, second.body.depositId, { status: 'canceled' })
    await untilClosed(app, second.body.depositId, 'failed')
    const before = await app.listedCredit('alice')
    await app.act(second.body.depositId, 'pay', second.body.chargeCents)
    await until(async () => (await app.listedCredit('alice')) === before + second.body.chargeCents)
  })

  test('invoices a debt that arose after its page was opened, on another page', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { key, accountId } = app.seller
    const first = await app.seller.order('alice', app.four, 'k')
    await app.run(
      ...['customers', 'adjust', '--account', accountId, '--customer', 'alice', '--cents', '-300'],
      ...['--reason', 'deposit_refund', '--gateway', 'stripe', '--reference', 're_2'],
    )
    const second = await app.seller.order('alice', app.four, 'k')
    assert.deepEqual(
      [second.body.owedCents, second.body.shortfallCents, second.body.chargeCents],
      [300, app.quote.amountCents + 300, app.quote.amountCents + 300],
    )
    await app.act(second.body.depositId, 'pay')
    await app.untilOrder(key, first.body.orderId, 'completed')
    assert.equal(await app.listedCredit('alice'), 0)
  })

  test('invoices only what is missing after a debt was paid, on another page', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { key, accountId } = app.seller
    const change = (...options: readonly string[]) =>
      app.run(...options, '--account', accountId, '--customer', 'alice')
    await change(
      ...['customers', 'adjust', '--cents', '-1430', '--reason', 'deposit_refund'],
      ...['--gateway', 'stripe', '--reference', 're_3'],
    )
    const first = await app.seller.order('alice', app.four, 'k')
    assert.equal(first.body.chargeCents, app.quote.amountCents + 1_430)
    await change('customers', 'credit', '--cents', '1430', '--reference', 'cash')
    const second = await app.seller.order('alice', app.four, 'k')
    assert.deepEqual([second.body.owedCents, second.body.chargeCents], [undefined, app.quote.amountCents])
    assert.equal((await app.seller.order('alice', app.four, 'k')).body.depositId, second.body.depositId)
    await app.act(second.body.depositId, 'pay')
    await app.untilOrder(key, first.body.orderId ?? second.body.orderId, 'completed')
    assert.equal(await app.listedCredit('alice'), 0)
  })

  test('is canceled on request, also while it waits for the wallet, and the payment stays credit', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { key, accountId } = app.seller
    const cancel = (orderId: string, customer = 'alice') =>
      app.client.post(`/api/v1/orders/${orderId}/cancel`, undefined, {
        key,
        headers: { 'X-Reseller-Customer-Id': customer },
      })
    const unpaid = await app.seller.order('alice', app.four, 'unpaid')
    const other = await cancel(unpaid.body.orderId, 'bob')
    assert.deepEqual([other.status, other.body.code], [404, 'not_found'])
    const canceled = await cancel(unpaid.body.orderId)
    assert.deepEqual(
      [canceled.status, canceled.body.status, canceled.body.cancelReason],
      [200, 'canceled', 'requested'],
      canceled.text,
    )
    assert.deepEqual((await cancel(unpaid.body.orderId)).body, canceled.body)
    await app.untilDeposit(key, unpaid.body.depositId, { status: 'canceled' })

    // A payment that the service has not seen yet places the order.
    await app.switches({ lost: 1 })
    const paid = await app.seller.order('alice', app.four, 'paid')
    await app.act(paid.body.depositId, 'pay')
    const tooLate = await cancel(paid.body.orderId)
    assert.deepEqual(
      [tooLate.status, tooLate.body.code, tooLate.body.status],
      [409, 'order_not_waiting', 'completed'],
    )
    await app.switches({ lost: 0 })

    const held = await app.seller.order('carol', app.four, 'held')
    const cents = await app.balance(key)
    const all = ['--cents', String(-cents), '--reference', 'all']
    await app.run('wallet', 'adjust', '--account', accountId, ...all)
    await app.act(held.body.depositId, 'pay')
    await app.untilDeposit(key, held.body.depositId, { status: 'paid' })
    assert.equal((await cancel(held.body.orderId, 'carol')).body.status, 'canceled')
    assert.equal(await app.listedCredit('carol'), held.body.chargeCents)
    await app.credit(accountId, cents)
  })

  test('is canceled if it is underpaid, and the payment is credit for the next order', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { key, accountId } = app.seller
    const gateway = ['reseller', 'gateway', '--account', accountId, '--sandbox', '--rail', 'crypto']
    await app.run(...gateway, '--provider', 'btcpay')
    const byCoins = { ...app.four, method: 'crypto' }
    const short = await until(async () => {
      const answer = await app.seller.order('alice', byCoins, 'k')
      return answer.body.payUrl && answer
    })
    await app.act(short.body.depositId, 'pay', 100)
    await app.act(short.body.depositId, 'expire')
    const canceled = await app.untilOrder(key, short.body.orderId, 'canceled')
    assert.equal(canceled.cancelReason, 'underpaid')
    const rest = await app.seller.order('alice', app.four, 'next')
    assert.equal(rest.body.shortfallCents, app.quote.amountCents - 100)
    // Paid in cash: the order is placed, and its page closes.
    await app.run(
      ...['customers', 'credit', '--account', accountId, '--customer', 'alice'],
      ...['--cents', String(app.quote.amountCents - 100), '--reference', 'cash 2'],
    )
    const placed = await app.seller.order('alice', app.four, 'next')
    assert.deepEqual([placed.status, placed.body.status], [200, 'completed'], placed.text)
    await app.untilDeposit(key, rest.body.depositId, { status: 'canceled' })
    await untilClosed(app, rest.body.depositId, 'expired')
    assert.equal(await app.listedCredit('alice'), 0)
  })

  test('says what its page no longer covers after the credit was spent, and a retry opens a page for the whole', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { accountId, key } = app.seller
    const credit = ['customers', 'credit', '--account', accountId, '--customer', 'dora']
    await app.run(...credit, '--cents', '300', '--reference', 'cash of dora')
    const [first, second] = [
      await app.seller.order('dora', app.four, 'first'),
      await app.seller.order('dora', app.four, 'second'),
    ]
    const missing = app.quote.amountCents - 300
    assert.deepEqual([first.body.shortfallCents, second.body.shortfallCents], [missing, missing])
    assert.equal((await app.readOrder(key, second.body.orderId)).shortfallCents, undefined)
    await app.act(first.body.depositId, 'pay')
    await app.untilOrder(key, first.body.orderId, 'completed')
    const left = first.body.chargeCents + 300 - app.quote.amountCents
    const needed = app.quote.amountCents - left - second.body.chargeCents
    assert.ok(needed > 0)
    assert.equal((await app.readOrder(key, second.body.orderId)).shortfallCents, needed)
    const { html } = await (await signedIn(app, accountId)).open(`/console/orders/${second.body.orderId}`)
    assert.match(html, /The pay page charges \$\d+\.\d\d less than the order needs now/)
    const again = await app.seller.order('dora', app.four, 'second')
    assert.equal(again.body.shortfallCents, app.quote.amountCents - left)
    assert.equal((await app.readOrder(key, second.body.orderId)).shortfallCents, undefined)
    await app.act(again.body.depositId, 'pay')
    await app.untilOrder(key, second.body.orderId, 'completed')
  })

  test('has no payment page without a live rail, and none above $5,000', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    for (const input of [addresses(4), addresses(4, { method: 'crypto' }), addresses(4, { method: 'pix' })]) {
      const short = await app.seller.order('alice', input, JSON.stringify(input))
      assert.equal(short.body.code, 'customer_credit_insufficient', short.text)
      assert.deepEqual(
        [short.body.payUrl, short.body.depositId, short.body.chargeCents],
        [undefined, undefined, undefined],
      )
    }
    await app.run(
      ...['wallet', 'credit', '--kind=payment', '--account', app.seller.accountId],
      ...['--cents', '10000000', '--reference', 'rich'],
    )
    const dear = await app.seller.order('alice', traffic(2_000, { method: 'card' }), 'dear')
    assert.deepEqual(
      [dear.body.code, dear.body.payUrl],
      ['customer_credit_insufficient', undefined],
      dear.text,
    )
  })

  test('opens no invoice while the wallet of the reseller is short', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { accountId, key } = app.seller
    const cents = await app.balance(key)
    await app.run(
      'wallet',
      'adjust',
      '--account',
      accountId,
      '--cents',
      String(1 - cents),
      '--reference',
      'x',
    )
    const short = await app.seller.order('alice', app.four, 'k')
    assert.deepEqual([short.status, short.body.code], [402, 'insufficient_balance'])
    assert.equal((await app.client.get('/api/v1/deposits', { key })).body.total, 0)
  })

  test('whose reseller runs short before the payment waits, and is placed by the next credit', async (t) => {
    const app = await testApp(t, { with: ['cardReseller'] })
    const { accountId, key } = app.seller
    const short = await app.seller.order('alice', app.four, 'k')
    const cents = await app.balance(key)
    await app.run(
      'wallet',
      'adjust',
      '--account',
      accountId,
      '--cents',
      String(1 - cents),
      '--reference',
      'x',
    )
    await app.act(short.body.depositId, 'pay')
    const { order_id: orderId } = await app.untilDeposit(key, short.body.depositId, { status: 'paid' })
    const held = await app.readOrder(key, orderId)
    const missing = app.quote.yourCostCents - 1
    const { status, waitsFor, walletShortfallCents, failureReason } = held
    assert.deepEqual(
      [status, waitsFor, walletShortfallCents, failureReason],
      ['awaiting_payment', 'wallet', missing, null],
    )
    const { accountId: _, refunds: _none, ...shown } = await app.run('orders', 'show', orderId)
    assert.deepEqual(shown, held)
    const retry = await app.seller.order('alice', app.four, 'k')
    assert.deepEqual([retry.status, retry.body.code], [402, 'insufficient_balance'])
    const { orderId: named, paidByCustomer, shortfallCents } = retry.body
    assert.deepEqual([named, paidByCustomer, shortfallCents], [orderId, true, missing])
    const other = await app.seller.order('alice', app.four, 'other')
    assert.deepEqual([other.body.code, other.body.paidByCustomer], ['insufficient_balance', undefined])
    assert.equal(await app.listedCredit('alice'), short.body.chargeCents)
    await app.run(...['wallet', 'adjust', '--account', accountId, '--cents', '100000', '--reference', 'more'])
    await app.untilOrder(key, orderId, 'completed')
    assert.equal(await app.listedCredit('alice'), short.body.chargeCents - app.quote.amountCents)
  })
})

describe('an order on the service of the file', () => {
  test('that is sold out when it is paid fails, and the credit stays', async (t) => {
    const app = await testApp(t, { own: 'file', with: ['cardReseller'] })
    const { key } = app.seller
    const few = {
      product_id: 'isp-static',
      quantity: 20,
      fulfillment_meta: { country: 'POL', period_days: 30 },
    }
    const short = await app.seller.order('alice', { ...few, method: 'card' }, 'k')
    assert.equal(short.status, 402, short.text)
    const rest = await app.seller.order(null, { ...few, quantity: 50 }, 'own')
    assert.equal(rest.status, 201, rest.text)
    const before = await app.balance(key)
    await app.act(short.body.depositId, 'pay')
    const { order_id: orderId } = await app.untilDeposit(key, short.body.depositId, { status: 'paid' })
    const failed = await app.untilOrder(key, orderId, 'failed')
    assert.equal(failed.failureReason, 'out_of_stock')
    assert.equal(await app.listedCredit('alice'), short.body.chargeCents)
    assert.equal(await app.balance(key), before)
    await app.verified()
  })

  // The last one on the service of the file: the clock leaps.
  test('has no payment page after its invoice expired, even without a callback', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const { key } = await app.customer({ cents: 0 })
    const headers = { 'Idempotency-Key': 'expires' }
    const { body } = await app.client.post(orders, traffic(5, { method: 'card' }), { key, headers })
    assert.match(body.payUrl, /^http/)
    await app.switches({ down: true })
    app.wait(25 * 60 * 60 * 1000)
    const dead = { ...body, payUrl: null }
    assert.deepEqual(await app.readOrder(key, body.orderId), dead)
    assert.deepEqual((await app.client.get(orders, { key })).body.orders, [dead])
    const again = await app.client.post(orders, traffic(5, { method: 'card' }), { key, headers })
    assert.deepEqual([again.status, again.body], [200, dead])
    assert.equal((await app.client.get(`/api/v1/deposits/${body.depositId}`, { key })).body.pay_url, null)
  })
})

test('the log of all these orders passes verification', async (t) => {
  await (await testApp(t)).verified()
})
