import assert from 'node:assert/strict'
import { test } from 'node:test'
import { asCustomer, done } from '../../support/app-actions.ts'
import { signedIn } from '../../support/console.ts'
import { limitAlone } from '../../support/four-eyes.ts'
import { testApp } from '../../support/test-app.ts'

const premium = '/api/v1/products/residential-premium/price?quantity=10'

test('a reseller sets its markup and its prices within the limits of the service', async (t) => {
  const app = await testApp(t)
  const shop = await app.newReseller(500_000)
  const { client, accountId } = shop
  const markup = (value: unknown) =>
    client.call('PATCH', '/api/v1/reseller/terms', { json: { markup: value } })
  const put = (json: object) => client.call('PUT', '/api/v1/reseller/prices', { json })
  const price = (product: object, unitPrice: string | null) => put({ ...product, unit_price: unitPrice })
  const customersPay = async () => (await client.get(premium)).body.amountCents
  const terms = async () => (await done(client.get('/api/v1/reseller/terms'))).body

  const early = await markup('1.30')
  assert.deepEqual([early.status, early.body.code], [403, 'prices_not_allowed'])
  assert.equal((await price({ product_id: 'residential-premium' }, null)).body.code, 'prices_not_allowed')
  assert.equal((await terms()).priceLimits, null)
  await app.run('reseller', 'set', '--account', accountId, '--price-limits', '1.00-2.00')
  assert.deepEqual((await terms()).priceLimits, { from: '1.00', to: '2.00' })

  await t.test('the markup, also at both limits', async () => {
    for (const value of ['1.00', '2', '1.30'])
      assert.equal((await markup(value)).body.markup, Number(value).toFixed(2))
    assert.equal(await customersPay(), 6_370)
    for (const value of ['0.99', '2.000001']) {
      const refused = await markup(value)
      assert.deepEqual([refused.status, refused.body.code], [400, 'price_outside_limits'])
      assert.match(refused.body.error, /1\.00 to 2\.00|1 to 2/)
    }
    for (const value of ['', '-1', '1,3', 1.3, '0', '101', '1.0000001'])
      assert.deepEqual([(await markup(value)).body.code, value], ['invalid_body', value])
    assert.equal((await terms()).markup, '1.30')
  })

  await t.test('the price of a product, at every quantity that can be ordered', async () => {
    const plan = { product_id: 'residential-premium' }
    // One price cannot be within the limits of both $5.50 for one GB and $2.40 for 1,000 GB.
    for (const [value, quantity] of [
      ['2.40', '1'],
      ['16.50', '1'],
      ['5.50', '1000'],
    ] as const) {
      const outside = await price(plan, value)
      assert.deepEqual([outside.status, outside.body.code], [400, 'price_outside_limits'])
      assert.match(
        outside.body.error,
        new RegExp(`from a quantity of ${quantity} on must be from [\\d.]+ to [\\d.]+ dollars`),
      )
    }
    const tiers = [
      { from: 1, unit_price: '6.60' },
      { from: 100, unit_price: '4.80' },
    ]
    const tiered = await put({ ...plan, tiers })
    assert.deepEqual(
      tiered.body.retail,
      [
        {
          productId: 'residential-premium',
          country: null,
          periodDays: null,
          tiers: [
            { from: 1, unitPrice: '6.60' },
            { from: 100, unitPrice: '4.80' },
          ],
          belowCost: false,
          adjusted: false,
        },
      ],
      tiered.text,
    )
    assert.equal(await customersPay(), 6_600)
    const quoteOf = async (quantity: number) =>
      (await client.get(`/api/v1/products/residential-premium/price?quantity=${quantity}`)).body.amountCents
    assert.deepEqual([await quoteOf(99), await quoteOf(100)], [65_340, 48_000])
    for (const json of [
      { ...plan },
      { ...plan, unit_price: '5', tiers },
      { ...plan, tiers: [{ from: 2, unit_price: '6' }] },
      { ...plan, tiers: [...tiers, { from: 100, unit_price: '4' }] },
    ])
      assert.equal((await put(json)).body.code, 'invalid_body', JSON.stringify(json))
    assert.deepEqual((await price(plan, null)).body.retail, [])

    const rented = { product_id: 'isp-static', countries: ['usa'], periods: [30] }
    assert.deepEqual((await price(rented, '3.50')).body.retail[0].tiers, [{ from: 1, unitPrice: '3.50' }])
    assert.deepEqual((await price(rented, null)).body.retail, [])
    assert.equal((await price({ ...rented, countries: ['XXX'] }, '3.50')).body.code, 'invalid_country')
    assert.equal((await price({ product_id: 'none' }, '3.50')).body.code, 'unknown_product')
  })

  await t.test('a price below the cost must be allowed, and changed limits move it', async () => {
    const change = (...options: readonly string[]) =>
      app.run('reseller', 'set', '--account', accountId, ...options)
    await change('--price-limits', '0.50-2.00')
    const low = {
      product_id: 'residential-premium',
      tiers: [
        { from: 1, unit_price: '5.50' },
        { from: 500, unit_price: '2.40' },
      ],
    }
    const refused = await put(low)
    assert.deepEqual([refused.status, refused.body.code], [400, 'price_below_cost'])
    assert.match(
      refused.body.error,
      /from a quantity of 500 on costs you 2.95 dollars, more than the price 2.4/,
    )
    const loss = await put({ ...low, allow_below_cost: true })
    assert.deepEqual([loss.status, loss.body.retail[0].belowCost], [200, true], loss.text)
    const quoteOf = async () =>
      (await client.get('/api/v1/products/residential-premium/price?quantity=500')).body
    assert.deepEqual([(await quoteOf()).amountCents, (await quoteOf()).marginCents], [120_000, -27_500])
    await change('--price-limits', '0.90-2.00')
    assert.equal((await quoteOf()).amountCents, 132_750)
    assert.equal((await terms()).retail[0].adjusted, true)
    assert.equal((await price({ product_id: low.product_id }, null)).status, 200)
    const belowCost = await markup('0.9')
    assert.deepEqual([belowCost.status, belowCost.body.code], [400, 'price_below_cost'])
    await change('--price-limits', '1.00-2.00')
  })

  await t.test(
    'a markup that is not allowed any more is marked, and the nearest one is charged',
    async () => {
      const change = (...options: readonly string[]) =>
        app.run('reseller', 'set', '--account', accountId, ...options)
      const { markup: before } = await terms()
      const charged = async () => [(await terms()).markupAdjusted, await customersPay()]
      assert.equal((await markup('1.30')).body.markupAdjusted, false)
      assert.deepEqual(await charged(), [false, 6_370])
      await change('--price-limits', '1.40-2.00')
      assert.deepEqual(await charged(), [true, 6_860])
      assert.equal((await app.run('reseller', 'show', accountId)).markupAdjusted, true)
      const browser = await signedIn(app, accountId)
      assert.match(
        (await browser.get('/console/reseller/terms')).html,
        /1\.30 × the list price; .*nearest allowed/,
      )
      await change('--price-limits', '0.50-2.00', '--discount', '50')
      assert.equal((await markup('0.60')).status, 200)
      await change('--discount', '10')
      assert.deepEqual(await charged(), [true, 4_410])
      await change('--price-limits', '1.00-2.00', '--discount', '0')
      await markup(before)
    },
  )

  await t.test('the console has the same forms and the same refusals', async () => {
    const browser = await signedIn(app, accountId)
    assert.match((await browser.get('/console/reseller/terms')).html, /from 1\.00 to 2\.00/)
    const high = await browser.post('/console/reseller/markup', { markup: '3' })
    assert.deepEqual([high.status, /from 1 to 2/.test(high.html)], [400, true])
    assert.equal(
      (await browser.post('/console/reseller/markup', { markup: '1.75' })).to,
      '/console/reseller/terms',
    )
    const rented = { product: 'isp-static', countries: 'DEU', periods: '30', price: '3.60' }
    assert.equal((await browser.post('/console/reseller/price', rented)).to, '/console/reseller/terms')
    const { html } = await browser.get('/console/reseller/terms')
    assert.match(html, /1\.75 × the list price/)
    assert.match(html, /3\.60/)
    const wrong = await browser.post('/console/reseller/price', { ...rented, periods: 'ten' })
    assert.deepEqual([wrong.status, /whole numbers of days/.test(wrong.html)], [400, true])
  })

  await t.test('a customer, an ordinary account and an account without limits may not', async () => {
    const headers = asCustomer('alice')
    const asAlice = await client.call('PATCH', '/api/v1/reseller/terms', { json: { markup: '1.5' }, headers })
    assert.equal(asAlice.body.code, 'invalid_customer_id')
    assert.equal((await app.buyer.get('/api/v1/reseller/terms')).body.code, 'reseller_forbidden')
    await app.run('reseller', 'set', '--account', accountId, '--no-price-limits')
    assert.equal((await markup('1.5')).body.code, 'prices_not_allowed')
    const browser = await signedIn(app, accountId)
    assert.match(
      (await browser.get('/console/reseller/markup')).html,
      /Only operators of the service set the prices/,
    )
    assert.equal((await browser.post('/console/reseller/markup', { markup: '1.5' })).status, 400)
  })
  await app.verified()
})

test('a reseller credits and refunds a customer once per reference', async (t) => {
  const app = await testApp(t, { own: true })
  const shop = await app.newReseller(500_000)
  const { client, accountId } = shop
  const move = (cents: unknown, reference: string, more: object = {}, customer = 'alice') =>
    client.post(
      '/api/v1/reseller/movements',
      { amount_cents: cents, reference, ...more },
      {
        headers: asCustomer(customer),
      },
    )
  const creditOf = async (customer = 'alice') =>
    (await done(client.get(`/api/v1/reseller/customers?customer=${customer}`))).body.customers[0]?.creditCents

  const first = await move(2_500, 'receipt 1')
  assert.deepEqual([first.status, first.body.status, first.body.creditCents], [200, 'applied', 2_500])
  assert.equal(await creditOf(), 2_500)
  const again = await move(2_500, 'receipt 1')
  const { movementId } = first.body
  assert.deepEqual(
    [again.status, again.body.code, again.body.amountCents, again.body.movementId],
    [409, 'already_applied', 2_500, movementId],
  )
  for (const other of [
    await move(2_501, 'receipt 1'),
    await move(2_500, 'receipt 1', { reason: 'goodwill' }),
  ])
    assert.deepEqual([other.status, other.body.code], [409, 'idempotency_conflict'])
  assert.match(again.body.error, /\$25\.00/)
  assert.equal((await move(-500, 'returned 1')).body.creditCents, 2_000)
  assert.equal((await move(100, 'sorry', { reason: 'goodwill' })).body.creditCents, 2_100)
  const short = await move(-9_000, 'returned 2')
  assert.deepEqual(
    [
      short.status,
      short.body.code,
      short.body.shortfallCents,
      short.body.creditCents,
      short.body.amountCents,
    ],
    [402, 'customer_credit_insufficient', 6_900, 2_100, 9_000],
  )
  // A reference belongs to one customer.
  assert.equal((await move(700, 'receipt 1', {}, 'bob')).body.creditCents, 700)
  const together = await Promise.all(Array.from({ length: 20 }, () => move(300, 'at once')))
  assert.equal(together.filter(({ status }) => status === 200).length, 1)
  assert.equal(await creditOf(), 2_400)

  for (const cents of [0, 1.5, '5', 100_000_000_001])
    assert.equal((await move(cents, 'x')).body.code, 'invalid_amount')
  assert.equal((await move(5, ' x')).body.code, 'invalid_body')
  assert.equal((await move(5, 'x', { reason: 'chargeback' })).body.code, 'invalid_body')
  const unnamed = await client.post('/api/v1/reseller/movements', { amount_cents: 5, reference: 'x' })
  assert.equal(unnamed.body.code, 'invalid_customer_id')
  const balance = await app.balance(shop.key)

  await t.test('the customer buys with the credit, and the reseller refunds it at its own cost', async () => {
    const browser = await signedIn(app, accountId)
    const form = { customer: 'alice', kind: 'goodwill', amount: '1.50', reference: 'refund of an order' }
    const posted = await browser.post('/console/reseller/movement', form)
    assert.match(posted.to ?? '', /^\/console\/reseller\/customers\/cus_/)
    assert.equal(await creditOf(), 2_550)
    const { html } = await browser.open(posted.to!)
    assert.match(html, /\$1\.50 credited\. The credit is \$25\.50/)
    const twice = await browser.post('/console/reseller/movement', form)
    assert.deepEqual([twice.status, /moved \$1\.50 before/.test(twice.html)], [409, true])
    const taken = { ...form, kind: 'returned', amount: '99', reference: 'y' }
    assert.equal((await browser.post('/console/reseller/movement', taken)).status, 400)
    const empty = await browser.post('/console/reseller/movement', {})
    assert.deepEqual([empty.status, /Choose a reason/.test(empty.html)], [400, true])
    assert.equal(await app.balance(shop.key), balance)
  })

  await t.test('above the approval limit an operator approves it', async () => {
    await limitAlone(app.core.log, 5_000)
    const waiting = await move(5_001, 'large')
    assert.deepEqual([waiting.status, waiting.body.status, waiting.body.creditCents], [202, 'proposed', null])
    assert.equal((await move(5_001, 'large')).body.proposalId, waiting.body.proposalId)
    for (const cents of [5_002, 100])
      assert.equal((await move(cents, 'large')).body.code, 'idempotency_conflict')
    assert.equal(await creditOf(), 2_550)
    const { proposalId } = waiting.body
    const shown = await app.run('proposals', 'show', proposalId)
    assert.equal(shown.proposedBy ?? shown.by, accountId)
    await app.run('proposals', 'approve', proposalId)
    assert.equal(await creditOf(), 7_551)
    assert.equal((await move(5_001, 'large')).body.code, 'already_applied')
    assert.equal((await move(5_000, 'small')).status, 200)
  })
  await t.test(
    'a movement that an operator declined stays declined, with the operator and the reason',
    async () => {
      const stateOf = async (id: string) => (await client.get(`/api/v1/reseller/movements/${id}`)).body
      const before = await creditOf()
      const { movementId: id, proposalId } = (await move(6_000, 'no receipt')).body
      assert.deepEqual([(await stateOf(id)).status, (await stateOf(id)).proposalId], ['proposed', proposalId])
      await app.run('proposals', 'decline', proposalId, '--note', 'The receipt is missing.')
      const declined = await stateOf(id)
      assert.deepEqual(
        [declined.status, declined.note, declined.decidedBy, declined.amountCents, declined.reference],
        ['declined', 'The receipt is missing.', 'operator:test', 6_000, 'no receipt'],
      )
      for (const cents of [6_000, 6_001, 100]) {
        const { status, body } = await move(cents, 'no receipt')
        assert.deepEqual(
          [status, body.code, body.note],
          [409, 'movement_declined', 'The receipt is missing.'],
        )
      }
      assert.equal((await stateOf(id)).status, 'declined')
      assert.equal(await creditOf(), before)
      assert.equal((await stateOf(movementId)).status, 'applied')
      assert.equal((await client.get(`/api/v1/reseller/movements/dep_${'0'.repeat(32)}`)).status, 404)
      const other = await app.newReseller(1_000)
      assert.equal((await other.client.get(`/api/v1/reseller/movements/${id}`)).status, 404)
    },
  )
  await t.test('the page of an order fills the form of its refund', async () => {
    const browser = await signedIn(app, accountId)
    const order = (await shop.order('alice', { product_id: 'residential-basic', quantity: 1 })).body
    const { html: orderPage } = await browser.open(`/console/orders/${order.orderId}`)
    const [, refund = ''] =
      /href="(\/console\/reseller\/movement\?[^"]+)">Refund the customer/.exec(orderPage) ?? []
    const filled = (await browser.open(refund.replaceAll('&amp;', '&'))).html
    for (const value of [order.customerId, (order.amountCents / 100).toFixed(2), order.orderId])
      assert.match(filled, new RegExp(`value="${value}"`))
  })
  await app.verified()
})
