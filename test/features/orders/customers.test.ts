import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addresses, asCustomer } from '../../support/app-actions.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const orders = '/api/v1/orders'
const extend = '/api/v1/proxies/extend'
test('orders for customers', async (t) => {
  const app = await testApp(t)
  const { reseller, demo } = app
  const { accountId } = demo.reseller
  const { cli, run } = app
  const as = (customer: string, name: string) => ({ headers: asCustomer(customer, name) })
  const alone = (name: string) => ({ headers: { 'Idempotency-Key': name } })
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

  await t.test('without credit are refused with the shortfall, and create no customer', async () => {
    const short = await reseller.post(orders, addresses(3), as('alice', 'a'))
    assert.deepEqual([short.status, short.body.code], [402, 'customer_credit_insufficient'])
    assert.equal(short.body.shortfallCents, quote.amountCents)
    for (const field of ['payUrl', 'depositId', 'chargeCents']) assert.equal(short.body[field], undefined)
    const absurd = await reseller.post(orders, { ...addresses(3), method: 'crypto' }, as('erin', 'e'))
    assert.deepEqual([absurd.status, absurd.body.payUrl], [402, undefined], 'no gateway, no pay page')
    const unsold = await reseller.post(orders, { ...addresses(3), product_id: 'none' }, as('frank', 'f'))
    assert.equal(unsold.body.code, 'unknown_product')
    assert.equal((await reseller.get('/api/v1/reseller/customers')).body.total, 0)
  })

  await t.test('debit the price from the credit and the cost from the wallet', async () => {
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

  await t.test('are placed once for a key, for any customer', async () => {
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

  await t.test('are protected by the expected price of the customer', async () => {
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
    const costBack = async () => (await reseller.get(`${orders}/${body.orderId}`)).body.refundedCostCents
    assert.equal(body.refundedCostCents, 0)
    assert.equal(await costBack(), Math.round(quote.yourCostCents / 3))
    await run('orders', 'refund', '--order', body.orderId)
    assert.equal(await creditOf('carol'), 100_000)
    assert.equal(await wallet(), before)
    const { body: after } = await reseller.get(`${orders}/${body.orderId}`)
    assert.deepEqual([after.status, after.refundedCents], ['refunded', quote.amountCents])
    // The sale and its refund: no margin remains.
    assert.deepEqual([after.refundedCostCents, after.marginCents], [quote.yourCostCents, quote.marginCents])
    const again = await cli('orders', 'refund', '--order', body.orderId)
    assert.deepEqual([again.code, again.json.code], [1, 'refund_refused'])
  })

  await t.test(
    "for a held plan top up that customer's plan, not another's and not the reseller's",
    async () => {
      const traffic = { product_id: 'residential-premium', quantity: 1 }
      const own = await reseller.post(orders, traffic, { headers: { 'Idempotency-Key': 'own' } })
      const first = await reseller.post(orders, traffic, as('carol', 'p1'))
      const second = await reseller.post(orders, traffic, as('carol', 'p2'))
      assert.equal(second.status, 201)
      assert.equal(second.body.planId, first.body.planId)
      assert.notEqual(own.body.planId, first.body.planId)
    },
  )

  await t.test(
    "top up and extend a customer's plans and rentals, on its credit and only when it is named",
    async () => {
      const own = await reseller.post(
        orders,
        { product_id: 'residential-premium', quantity: 1 },
        alone('held'),
      )
      const held = await reseller.post(
        orders,
        { product_id: 'residential-premium', quantity: 1 },
        as('carol', 'held-for'),
      )
      const rented = await reseller.post(orders, addresses(2), as('carol', 'rented'))
      const price = await reseller.get('/api/v1/products/residential-premium/price?quantity=2')
      const plan = `/api/v1/plans/${held.body.planId}`
      const topUp = `${plan}/topup`
      const before = [await creditOf('carol'), await wallet()] as const
      const sides = async () => [before[0] - (await creditOf('carol')), before[1] - (await wallet())]

      const named = await reseller.post(topUp, { quantity: 2 }, alone('top-unnamed'))
      assert.deepEqual([named.status, named.body.code], [400, 'invalid_customer_id'])
      assert.match(named.body.error, /name the customer with X-Reseller-Customer-Id/)
      const other = await reseller.post(topUp, { quantity: 2 }, as('dave', 'top-other'))
      assert.deepEqual([other.status, other.body.code], [404, 'not_found'])
      const ownPlan = `/api/v1/plans/${own.body.planId}/topup`
      const foreign = await reseller.post(ownPlan, { quantity: 2 }, as('carol', 'top-own'))
      assert.deepEqual([foreign.status, foreign.body.code], [404, 'not_found'])
      const extension = { proxy_ids: rented.body.proxyIds, period_days: 30 }
      const unnamed = await reseller.post(extend, extension, alone('ext-unnamed'))
      assert.deepEqual([unnamed.status, unnamed.body.code], [400, 'invalid_customer_id'])
      const others = await reseller.post(extend, extension, as('dave', 'ext-other'))
      assert.deepEqual([others.status, others.body.code], [404, 'not_found'])
      assert.deepEqual(await sides(), [0, 0])

      const topped = await reseller.post(topUp, { quantity: 2 }, as('carol', 'top'))
      assert.deepEqual(
        [
          topped.status,
          topped.body.kind,
          topped.body.amountCents,
          topped.body.yourCostCents,
          topped.body.customer,
        ],
        [201, 'topup', price.body.amountCents, price.body.yourCostCents, 'carol'],
      )
      assert.deepEqual(
        [topped.body.plan.dataGbTotal, topped.body.plan.customer],
        [(await reseller.get(plan)).body.dataGbTotal, 'carol'],
      )
      const extended = await reseller.post(extend, extension, as('carol', 'ext'))
      const whole = (await reseller.get('/api/v1/products/isp-static/price?quantity=2')).body
      assert.deepEqual(
        [extended.status, extended.body.amountCents, extended.body.yourCostCents],
        [201, whole.amountCents, whole.yourCostCents],
      )
      assert.deepEqual(await sides(), [
        price.body.amountCents + whole.amountCents,
        price.body.yourCostCents + whole.yourCostCents,
      ])
      const again = await reseller.post(topUp, { quantity: 2 }, as('carol', 'top'))
      assert.deepEqual([again.status, again.body.orderId], [200, topped.body.orderId])

      const short = await reseller.post(topUp, { quantity: 1_000 }, as('carol', 'top-short'))
      assert.deepEqual([short.status, short.body.code], [402, 'customer_credit_insufficient'])
      for (const id of [topped, extended].map(({ body }) => body.orderId))
        await run('orders', 'refund', '--order', id)
      assert.deepEqual(await sides(), [0, 0])
    },
  )

  await t.test('show their customer by both ids, in every read', async () => {
    const { body: order } = await reseller.post(orders, addresses(1), as('carol', 'named'))
    assert.equal(order.customer, 'carol')
    const { orders: listed } = (await reseller.get(`${orders}?limit=100`)).body
    const one = listed.find(({ orderId }: { orderId: string }) => orderId === order.orderId)
    assert.deepEqual([one.customer, one.customerId], ['carol', order.customerId])
    const { proxies } = (await reseller.get(`/api/v1/proxies?order_id=${order.orderId}`)).body
    assert.deepEqual([proxies[0].customer, proxies[0].customerId], ['carol', order.customerId])
    const { plans } = (await reseller.get('/api/v1/plans')).body
    assert.deepEqual(
      new Set(plans.map(({ customer }: { customer: string }) => customer)),
      new Set(['carol', null]),
    )
    const shown = await run('orders', 'show', order.orderId)
    assert.deepEqual(
      [shown.customer, shown.yourCostCents, shown.marginCents],
      ['carol', order.yourCostCents, order.marginCents],
    )
  })

  await t.test("report the reseller's wallet first when both are short", async () => {
    const cents = await wallet()
    const taken = ['--account', accountId, '--cents', String(1 - cents), '--reference', 'spent']
    await run('wallet', 'adjust', ...taken)
    const short = await reseller.post(orders, addresses(3), as('dave', 'dear'))
    assert.deepEqual([short.status, short.body.code], [402, 'insufficient_balance'])
    assert.deepEqual([short.body.amountCents, short.body.balanceCents], [quote.yourCostCents, 1])
  })
})
