import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import type { HttpClient } from '../../support/http.ts'
import { operate } from '../../support/operator.ts'
import { secondClient, type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/**
 * The effect of a payment depends on streams that it does not write: the account, the stock, the order.
 * Operators change them on the command line, with a core of its own, whose events the service has not read.
 */
const openWatched = async (t: TestContext) => {
  const app = await testApp(t)
  const run = async (...args: readonly string[]) => {
    const { code, out, err } = await operate([...args, '--json'], app.env)
    assert.equal(code, 0, err)
    return JSON.parse(out)
  }
  return { ...app, operate: run }
}
type Watched = Awaited<ReturnType<typeof openWatched>>

/** The demo has 60 addresses there. */
const inPoland = (quantity: number) => ({
  product_id: 'isp-static',
  quantity,
  fulfillment_meta: { country: 'POL', period_days: 30 },
})

const gigabytes = { product_id: 'residential-premium', quantity: 2, method: 'card' }

/** An account that this process has never written to, as the command line makes it. */
const customerByCli = async ({ operate, client }: Watched) => {
  const { accountId } = await operate('accounts', 'create', '--email', `${randomUUID()}@example.com`)
  const { key } = await operate('keys', 'create', '--account', accountId, '--scopes', 'buy')
  await until(async () => (await client.get('/api/v1/wallet', { key })).status === 200)
  return { accountId, key } as { accountId: string; key: string }
}

const orderOnPage = async ({ client }: TestApp, key: string, name: string, body: object = gigabytes) => {
  const { status, body: order } = await client.post('/api/v1/orders', body, {
    key,
    headers: { 'Idempotency-Key': name },
  })
  assert.equal(status, 201)
  const depositId = await until(async () => {
    const { deposits } = (await client.get('/api/v1/deposits', { key })).body
    return deposits.find((one: { order_id: string }) => one.order_id === order.orderId)?.deposit_id
  })
  return { orderId: order.orderId as string, depositId: depositId as string, cents: order.amountCents }
}

/** Pays the order's invoice; returns the order once the money is credited. */
const paid = async (app: TestApp, key: string, order: Awaited<ReturnType<typeof orderOnPage>>) => {
  await app.act(order.depositId, 'pay', Math.max(1_000, order.cents))
  await app.untilDeposit(key, order.depositId, { status: 'paid' })
  const { status, failureReason } = (await app.client.get(`/api/v1/orders/${order.orderId}`, { key })).body
  return [status, failureReason]
}

test('an order paid after its account was blocked fails, though an earlier one was placed', async (t) => {
  const app = await openWatched(t)
  const { key, accountId } = await customerByCli(app)
  const [before, after] = [await orderOnPage(app, key, '1'), await orderOnPage(app, key, '2')]
  assert.deepEqual(await paid(app, key, before), ['completed', null])
  await app.operate('accounts', 'block', accountId)
  assert.deepEqual(await paid(app, key, after), ['failed', 'account_blocked'])
})

test('an order paid after its account was unblocked is placed, though an earlier one failed', async (t) => {
  const app = await openWatched(t)
  const { key, accountId } = await customerByCli(app)
  const [before, after] = [await orderOnPage(app, key, '1'), await orderOnPage(app, key, '2')]
  await app.operate('accounts', 'block', accountId)
  assert.deepEqual(await paid(app, key, before), ['failed', 'account_blocked'])
  await app.operate('accounts', 'unblock', accountId)
  assert.deepEqual(await paid(app, key, after), ['completed', null])
})

test('an order of addresses that is paid after the operator stocked them is placed', async (t) => {
  const app = await openWatched(t)
  const { key } = await app.customer({ cents: 0 })
  const rich = await app.customer({ cents: 100_000_000 })
  const order = await orderOnPage(app, key, '1', { ...inPoland(1), method: 'card' })
  // Sold out, which this process knows from the refusals that end it.
  for (let quantity = 60, n = 0; quantity >= 1; n += 1) {
    const headers = { 'Idempotency-Key': `all ${n}` }
    const { status } = await app.client.post('/api/v1/orders', inPoland(quantity), {
      key: rich.key,
      headers,
    })
    if (status !== 201) quantity = Math.floor(quantity / 2)
  }
  const where = ['--product', 'isp-static', '--country', 'POL']
  await app.operate('stock', 'add', ...where, '--addresses', '203.0.113.7')
  assert.deepEqual(await paid(app, key, order), ['completed', null])
})

test('a chargeback blocks its account again if the operator unblocked it after an earlier one', async (t) => {
  const app = await openWatched(t)
  const { key, accountId } = await app.customer({ cents: 0 })
  const deposit = async () => {
    const { deposit_id: id } = await app.openDeposit(key, { amount_cents: 2_000, method: 'card' })
    await app.act(id, 'pay', 2_000)
    await app.untilDeposit(key, id, { status: 'paid' })
    return id as string
  }
  const [first, second] = [await deposit(), await deposit()]
  const isBlocked = async () => (await app.operate('accounts', 'show', accountId)).blocked
  await app.act(first, 'dispute')
  await app.untilBalance(key, 2_000)
  assert.equal(await isBlocked(), true)
  await app.operate('accounts', 'unblock', accountId)
  await app.act(second, 'dispute')
  await app.untilBalance(key, 0)
  assert.equal(await isBlocked(), true)
})

test('an order is placed by the payment of an invoice that another process opened for it', async (t) => {
  const app = await testApp(t)
  const { key, accountId } = await app.resellerWithGateways('Acme', 'btcpay')
  await app.credit(accountId, 100_000)
  const other = await secondClient(t, app)
  const ask = (client: HttpClient, method: 'card' | 'crypto') =>
    client.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 1, method },
      { key, headers: { 'Idempotency-Key': 'A', 'X-Reseller-Customer-Id': 'alice' } },
    )
  const first = await ask(app.client, 'card')
  const second = await ask(other, 'crypto')
  assert.notEqual(second.body.depositId, first.body.depositId)
  await app.act(second.body.depositId, 'pay', second.body.chargeCents)
  const { order_id: orderId } = await app.untilDeposit(key, second.body.depositId, { status: 'paid' })
  await app.untilOrder(key, orderId, 'completed')
})
