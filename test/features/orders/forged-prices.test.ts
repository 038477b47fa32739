import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { done } from '../../support/app-actions.ts'
import type { HttpClient } from '../../support/http.ts'
import { operate } from '../../support/operator.ts'
import { secondClient, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const orders = '/api/v1/orders'
const five = { product_id: 'residential-premium', quantity: 5 }

test('an order is priced by the log, whatever the read tables of prices contain', async (t) => {
  const app = await testApp(t, { own: true })
  const { pool } = app.core
  const reseller = await app.customer({ cents: 100_000, reseller: true })
  const buyer = await app.customer({ cents: 100_000 })
  const discount = ['reseller', 'set', '--account', reseller.accountId, '--discount', '10']
  assert.equal((await operate(discount, app.env)).code, 0)
  const costOf = async (client: HttpClient, key: string): Promise<number> => {
    const { status, text, body } = await client.post(orders, five, {
      key,
      headers: { 'Idempotency-Key': randomUUID() },
    })
    assert.equal(status, 201, text)
    return body.amountCents
  }
  const path = '/api/v1/products/residential-premium/price?quantity=5'
  await until(
    async () => (await done(app.client.get(path, { key: reseller.key }))).body.yourCostCents === 2475,
  )
  const price = await costOf(app.client, buyer.key)
  assert.equal(await costOf(app.client, reseller.key), 2475)

  const { rowCount } = await pool.query(
    `update read.catalog set products = regexp_replace(products::text, '"unitPriceMicros": ?[0-9]+', '"unitPriceMicros":10000', 'g')::jsonb`,
  )
  assert.equal(rowCount, 1)
  await pool.query(
    `update read.reseller_terms set terms = terms || '{"discountBp": 9900}', position = position + 1`,
  )
  // A process that starts on these tables, and the one that runs.
  for (const client of [app.client, await secondClient(t, app)]) {
    assert.equal(await costOf(client, buyer.key), price)
    assert.equal(await costOf(client, reseller.key), 2475)
  }
})
