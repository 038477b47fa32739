import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../../support/test-app.ts'

const orders = '/api/v1/orders'

for (const { product, country, meta } of [
  { product: 'ipv4-datacenter', country: 'CAN', meta: {} },
  { product: 'mobile-dedicated', country: 'GBR', meta: {} },
])
  test(`the free addresses of ${product} in the options and in a refusal are correct, and one order gets all of them`, async (t) => {
    const app = await testApp(t)
    const { key } = await app.customer({ cents: 100_000_000 })
    const { body: options } = await app.client.get(`/api/v1/products/${product}/options`, { key })
    const place = options.countries.find(({ alpha3 }: { alpha3: string }) => alpha3 === country)
    assert.ok(place?.available > 0, JSON.stringify(options.countries))
    const { available } = place
    const order = (quantity: number, method = 'wallet') =>
      app.client.post(
        orders,
        {
          product_id: product,
          quantity,
          method,
          fulfillment_meta: { country, period_days: options.periods.at(-1).days, ...meta },
        },
        { key },
      )
    for (const method of ['wallet', 'card']) {
      const { status, body } = await order(available + 1, method)
      assert.deepEqual([status, body.code, body.availableQuantity], [409, 'out_of_stock', available])
      assert.match(body.error, new RegExp(`${available} address(es)? (is|are) free`))
    }
    const placed = await order(available)
    assert.equal(placed.status, 201, placed.text)
    // Another mobile line of the country may have as many.
    let left = await order(available)
    while (left.status === 201) left = await order(available)
    assert.equal(left.body.code, 'out_of_stock', left.text)
    assert.ok(left.body.availableQuantity < available, left.text)
  })
