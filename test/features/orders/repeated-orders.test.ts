import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import { asCustomer } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** A customer's order without enough credit awaits its invoice; here it is repeated after a credit. */
const openUnpaidOrders = async (t: TestContext) => {
  const app = await testApp(t, { with: ['cardReseller'] })
  const { accountId } = app.seller
  await app.credit(accountId, 1_000_000)
  return {
    ...app,
    accountId,
    ask: (customer: string, key = app.seller.key) =>
      app.client.post('/api/v1/orders', app.four, {
        key,
        headers: asCustomer(customer, `order of ${customer}`),
      }),
    creditInCash: (customer: string) =>
      app.run(
        ...['customers', 'credit', '--account', accountId, '--customer', customer],
        ...['--cents', '2000', '--reference', `cash of ${customer}`],
      ),
  }
}

test('an order that is repeated with another key is spent by that key, under its cap', async (t) => {
  const app = await openUnpaidOrders(t)
  const { yourCostCents: cost } = app.quote
  const capped = await app.issueKey(app.accountId, cost)
  const free = await app.issueKey(app.accountId, null)
  for (const customer of ['alice', 'bob', 'carol']) {
    const short = await app.ask(customer, capped)
    assert.deepEqual([short.status, short.body.code], [402, 'customer_credit_insufficient'])
    await app.creditInCash(customer)
  }
  for (const customer of ['alice', 'bob']) assert.equal((await app.ask(customer, free)).status, 200)
  const within = await app.ask('carol', capped)
  assert.deepEqual([within.status, within.body.status], [200, 'completed'], 'it has spent nothing yet')

  assert.equal((await app.ask('dave', free)).status, 402)
  await app.creditInCash('dave')
  const beyond = await app.ask('dave', capped)
  const { code, capCents, spentCents } = beyond.body
  assert.deepEqual(
    [beyond.status, code, capCents, spentCents],
    [402, 'spend_cap_reached', cost, cost],
    'its cap is spent, whichever key was first',
  )
  assert.equal((await app.ask('dave', free)).status, 200)
  await app.verified()
})

test('an order whose product is parked meanwhile is refused, charged nothing, and placed once the product is active again', async (t) => {
  const app = await openUnpaidOrders(t)
  assert.equal((await app.ask('alice')).status, 402)
  await app.creditInCash('alice')
  const credit = await app.listedCredit('alice')
  const set = (state: 'parked' | 'active') =>
    createCatalogService(app.core.runner).setState(
      { productId: 'isp-static', state, successorId: null },
      operator,
    )
  await set('parked')
  const refused = await app.ask('alice')
  assert.deepEqual([refused.status, refused.body.code], [409, 'product_unavailable'])
  assert.equal(await app.listedCredit('alice'), credit)
  await set('active')
  const placed = await until(async () => {
    const answer = await app.ask('alice')
    return answer.status === 200 ? answer : null
  })
  assert.equal(placed.body.status, 'completed')
})
