import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerCustomers } from '../../src/customers/cli.ts'
import { registerWallet } from '../../src/ledger/cli.ts'
import { registerOrders } from '../../src/orders/cli.ts'
import { registerReseller } from '../../src/resellers/cli.ts'
import { deskOf } from '../resellers/desk.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const orders = '/api/v1/orders'
const addresses = (quantity: number) => ({
  product_id: 'isp-static',
  quantity,
  fulfillment_meta: { country: 'USA', period_days: 30 },
})

test('orders for customers', async (t) => {
  const service = await startService(t)
  const { reseller, demo } = service
  const { accountId } = demo.reseller
  const desk = deskOf(service.farebox.core, [
    registerReseller,
    registerCustomers,
    registerOrders,
    registerWallet,
  ])
  const run = async (...args: readonly string[]) => {
    const ran = await desk(...args)
    assert.equal(ran.code, 0, ran.err)
    return ran.json
  }
  const as = (customer: string, name: string) => ({
    headers: { 'Idempotency-Key': name, 'X-Reseller-Customer-Id': customer },
  })
  const creditOf = async (customer: string): Promise<number> => {
    const { customers } = await run('customers', 'list', '--account', accountId)
    return customers.find((one: { customer: string }) => one.customer === customer)?.creditCents
  }
  const pay = (customer: string, cents: number, reference: string) =>
    run(
      ...['customers', 'credit', '--account', accountId, '--customer', customer],
      ...['--cents', String(cents), '--reference', reference],
    )
  const wallet = async () => (await reseller.get('/api/v1/wallet')).body.balanceCents as number

  await run('reseller', 'set', '--account', accountId, '--discount', '10', '--markup', '1.30')
  const quotePath = '/api/v1/products/isp-static/price?quantity=3&country=USA&period_days=30'
  await until(async () => (await reseller.get(quotePath)).body.marginCents > 0)
  const { body: quote } = await reseller.get(quotePath)

  await t.test(
    'without credit are refused with the shortfall, and the relation exists from then on',
    async () => {
      const short = await reseller.post(orders, addresses(3), as('alice', 'a'))
      assert.deepEqual([short.status, short.body.code], [402, 'customer_credit_insufficient'])
      assert.equal(short.body.shortfallCents, quote.amountCents)
      for (const field of ['payUrl', 'depositId', 'chargeCents']) assert.equal(short.body[field], undefined)
      assert.equal(await creditOf('alice'), 0)
    },
  )

  await t.test('take the price from the credit and the cost from the wallet', async () => {
    await pay('alice', quote.amountCents + 7, 'cash')
    const before = await wallet()
    const { status, body } = await reseller.post(orders, addresses(3), as('alice', 'a'))
    assert.equal(status, 201)
    assert.deepEqual(
      [body.amountCents, body.yourCostCents, body.marginCents],
      [quote.amountCents, quote.yourCostCents, quote.marginCents],
    )
    assert.equal(body.balanceCents, before - quote.yourCostCents)
    assert.equal(await wallet(), body.balanceCents)
    assert.equal(await creditOf('alice'), 7)
    assert.deepEqual((await reseller.get(`${orders}/${body.orderId}`)).body, body)
    const { transactions } = (await reseller.get('/api/v1/wallet/transactions')).body
    assert.deepEqual(
      [transactions[0].type, transactions[0].amountCents, transactions[0].orderId],
      ['order', -quote.yourCostCents, body.orderId],
    )
  })

  await t.test('are answered once for a key, whoever the customer is', async () => {
    const again = await reseller.post(orders, addresses(3), as('alice', 'a'))
    assert.deepEqual([again.status, again.headers.get('idempotency-replayed')], [200, 'true'])
    const other = await reseller.post(orders, addresses(3), as('bob', 'a'))
    assert.deepEqual([other.status, other.body.code], [409, 'idempotency_conflict'])
    assert.equal(await creditOf('alice'), 7)
  })

  await t.test("of one customer never touch another's credit", async () => {
    await pay('carol', 100_000, 'cash')
    const short = await reseller.post(orders, addresses(3), as('dave', 'd'))
    assert.equal(short.body.code, 'customer_credit_insufficient')
    assert.equal(await creditOf('carol'), 100_000)
  })

  await t.test('are guarded by the price that the customer pays', async () => {
    const guard = { ...addresses(3), expected_amount_cents: quote.yourCostCents }
    const changed = await reseller.post(orders, guard, as('carol', 'guard'))
    assert.deepEqual([changed.status, changed.body.code], [409, 'price_changed'])
    assert.equal(changed.body.amountCents, quote.amountCents)
  })

  await t.test('are refunded to both sides, address by address and then the rest', async () => {
    const before = await wallet()
    const { body } = await reseller.post(orders, addresses(3), as('carol', 'refund'))
    assert.equal(await creditOf('carol'), 100_000 - quote.amountCents)
    const first = await run('orders', 'refund', '--order', body.orderId, '--proxy', body.proxyIds[0])
    assert.equal(first.refundCents, Math.round(quote.amountCents / 3))
    await run('orders', 'refund', '--order', body.orderId)
    assert.equal(await creditOf('carol'), 100_000)
    assert.equal(await wallet(), before)
    const { body: after } = await reseller.get(`${orders}/${body.orderId}`)
    assert.deepEqual([after.status, after.refundedCents], ['refunded', quote.amountCents])
    const again = await desk('orders', 'refund', '--order', body.orderId)
    assert.deepEqual([again.code, again.json.code], [1, 'refund_refused'])
  })

  await t.test('that a plan is held for top up that customer, not another and not the reseller', async () => {
    const traffic = { product_id: 'residential-premium', quantity: 1 }
    const own = await reseller.post(orders, traffic, { headers: { 'Idempotency-Key': 'own' } })
    const first = await reseller.post(orders, traffic, as('carol', 'p1'))
    const second = await reseller.post(orders, traffic, as('carol', 'p2'))
    assert.equal(second.status, 201)
    assert.equal(second.body.planId, first.body.planId)
    assert.notEqual(own.body.planId, first.body.planId)
  })

  await t.test("name the reseller's wallet first when both are short", async () => {
    const cents = await wallet()
    const taken = ['--account', accountId, '--cents', String(1 - cents), '--reference', 'spent']
    await run('wallet', 'adjust', ...taken)
    const short = await reseller.post(orders, addresses(3), as('dave', 'dear'))
    assert.deepEqual([short.status, short.body.code], [402, 'insufficient_balance'])
    assert.deepEqual([short.body.amountCents, short.body.balanceCents], [quote.yourCostCents, 1])
  })
})
