import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import { operator } from '../../contract/stage.ts'
import { until } from '../../support/until.ts'
import { openStore } from './store.ts'

/** A customer's order without enough credit awaits its invoice; here it is repeated after a credit. */
const openUnpaidOrders = async (t: import('node:test').TestContext) => {
  const store = await openStore(t)
  const { accountId } = store.reseller
  await store.credit(accountId, 1_000_000)
  return {
    ...store,
    accountId,
    ask: (customer: string, key = store.reseller.key) =>
      store.client.post('/api/v1/orders', store.four, {
        key,
        headers: { 'Idempotency-Key': `order of ${customer}`, 'X-Reseller-Customer-Id': customer },
      }),
    creditInCash: (customer: string) =>
      store.run(
        ...['customers', 'credit', '--account', accountId, '--customer', customer],
        ...['--cents', '2000', '--reference', `cash of ${customer}`],
      ),
  }
}

test('an order that is repeated with another key is spent by that key, under its cap', async (t) => {
  const store = await openUnpaidOrders(t)
  const { yourCostCents: cost } = store.quote
  const capped = await store.issueKey(store.accountId, cost)
  const free = await store.issueKey(store.accountId, null)
  for (const customer of ['alice', 'bob', 'carol']) {
    const short = await store.ask(customer, capped)
    assert.deepEqual([short.status, short.body.code], [402, 'customer_credit_insufficient'])
    await store.creditInCash(customer)
  }
  for (const customer of ['alice', 'bob']) assert.equal((await store.ask(customer, free)).status, 200)
  const within = await store.ask('carol', capped)
  assert.deepEqual([within.status, within.body.status], [200, 'completed'], 'it has spent nothing yet')

  assert.equal((await store.ask('dave', free)).status, 402)
  await store.creditInCash('dave')
  const beyond = await store.ask('dave', capped)
  const { code, capCents, spentCents } = beyond.body
  assert.deepEqual(
    [beyond.status, code, capCents, spentCents],
    [402, 'spend_cap_reached', cost, cost],
    'its cap is spent, whichever key was first',
  )
  assert.equal((await store.ask('dave', free)).status, 200)
  await store.sound()
})

test('an order whose product is parked meanwhile is refused, charged nothing, and placed once the product is active again', async (t) => {
  const store = await openUnpaidOrders(t)
  assert.equal((await store.ask('alice')).status, 402)
  await store.creditInCash('alice')
  const credit = await store.creditOf('alice')
  const set = (state: 'parked' | 'active') =>
    createCatalogService(store.farebox.core.runner).setState(
      { productId: 'isp-static', state, successorId: null },
      operator,
    )
  await set('parked')
  const refused = await store.ask('alice')
  assert.deepEqual([refused.status, refused.body.code], [409, 'product_unavailable'])
  assert.equal(await store.creditOf('alice'), credit)
  await set('active')
  const placed = await until(async () => {
    const answer = await store.ask('alice')
    return answer.status === 200 ? answer : null
  })
  assert.equal(placed.body.status, 'completed')
})
