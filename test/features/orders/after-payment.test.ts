import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { type TestContext, test } from 'node:test'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import { startAwaitingReactor } from '../../../src/features/orders/place-paid-orders.ts'
import { operator } from '../../contract/stage.ts'
import { until } from '../../support/until.ts'
import { addresses, openStore } from './store.ts'

type Store = Awaited<ReturnType<typeof openStore>>

/** A store whose customers get messages about their orders from a bot. */
const openWithBot = async (t: TestContext) => {
  const store = await openStore(t)
  const bot = `${store.farebox.config.dataDir}/bot.json`
  await writeFile(bot, JSON.stringify({ token: '123456:AbC', apiUrl: store.sandbox }))
  await store.run('reseller', 'set', '--account', store.reseller.accountId, '--bot', bot)
  return store
}

const messagesOf = async ({ sandbox }: Store): Promise<readonly string[]> => {
  const { messages } = (await (await fetch(`${sandbox}/_sandbox/telegram/messages`)).json()) as {
    messages: { text: string }[]
  }
  return messages.map(({ text }) => text)
}

/**
 * Orders four addresses for the customer, who can get messages, and returns the payment page of the refusal.
 */
const ask = async (store: Store, customer: string, key = store.reseller.key) => {
  const headers = { 'Idempotency-Key': `order of ${customer}`, 'X-Reseller-Customer-Id': customer }
  const short = await store.client.post('/api/v1/orders', store.four, { key, headers })
  assert.deepEqual([short.status, short.body.code], [402, 'customer_credit_insufficient'], short.text)
  const { customers } = (await store.client.get('/api/v1/reseller/customers', { key: store.reseller.key }))
    .body
  const { customerId } = customers.find((one: { customer: string }) => one.customer === customer)
  const path = `/api/v1/reseller/customers/${customerId}`
  const json = { bot_chat_id: '4242' }
  const patched = await store.client.call('PATCH', path, { key: store.reseller.key, json })
  assert.equal(patched.status, 200, patched.text)
  return short.body as { depositId: string; chargeCents: number }
}

/** Pays and waits until the money is credited; the order's id. */
const pay = async (store: Store, { depositId, chargeCents }: { depositId: string; chargeCents: number }) => {
  await store.act(depositId, 'pay', chargeCents)
  const wanted = { status: 'paid', credited_cents: chargeCents }
  const { order_id: orderId } = await store.deposits(depositId, wanted)
  return orderId as string
}

/** The order failed for this reason, the money stays in both books, and a retry gets the same answer. */
const assertFailed = async (
  store: Store,
  orderId: string,
  {
    customer,
    reason,
    chargeCents,
    walletCents,
  }: {
    customer: string
    reason: string
    chargeCents: number
    walletCents: number
  },
) => {
  const failed = await store.reads(orderId, 'failed')
  assert.deepEqual([failed.failureReason, failed.payUrl, failed.proxyIds], [reason, null, []])
  assert.equal(await store.creditOf(customer), chargeCents, "the customer's credit is untouched")
  assert.equal(await store.balance(store.reseller.key), walletCents, "the reseller's wallet is untouched")
  const text = await until(async () => (await messagesOf(store)).find((one) => one.includes(orderId)), {
    timeoutMs: 40_000,
    what: 'the message',
  })
  assert.match(text, /could not be placed.*The money stays in your credit/s)
  await store.sound()
}

test('a payment whose product was parked meanwhile: the order fails, the credit stays, the customer is notified', async (t) => {
  const store = await openWithBot(t)
  const { core } = store.farebox
  const page = await ask(store, 'alice')
  const walletCents = await store.balance(store.reseller.key)
  await createCatalogService(core.runner).setState(
    { productId: 'isp-static', state: 'parked', successorId: null },
    operator,
  )
  const orderId = await pay(store, page)
  const { chargeCents } = page
  const reason = 'product_unavailable'
  await assertFailed(store, orderId, { customer: 'alice', reason, chargeCents, walletCents })
  const again = await store.order(store.four, 'order of alice', 'alice')
  assert.deepEqual([again.status, again.body.status, again.body.failureReason], [200, 'failed', reason])
  // Another key is a new order, and the credit is there for it.
  await createCatalogService(core.runner).setState(
    { productId: 'isp-static', state: 'active', successorId: null },
    operator,
  )
  const next = await until(async () => {
    const answer = await store.order(store.four, 'again', 'alice')
    return answer.status === 201 && answer.body
  })
  assert.equal(await store.creditOf('alice'), chargeCents - next.amountCents)
  await store.sound()
})

test('a payment for a reseller who was blocked meanwhile: the order fails, the credit stays, the customer is notified', async (t) => {
  const store = await openWithBot(t)
  const { accountId, key } = store.reseller
  const page = await ask(store, 'alice')
  const walletCents = await store.balance(key)
  await store.accounts.block(accountId as never, 'fraud', operator)
  const orderId = await pay(store, page)
  const { chargeCents } = page
  await assertFailed(store, orderId, {
    customer: 'alice',
    reason: 'account_blocked',
    chargeCents,
    walletCents,
  })
  const again = await store.order(store.four, 'order of alice', 'alice')
  assert.deepEqual([again.status, again.body.code], [403, 'account_blocked'])
})

test('a payment for a key that has reached its cap: the order fails, the credit stays, the customer is notified', async (t) => {
  const store = await openWithBot(t)
  const { accountId, key } = store.reseller
  const cost = store.quote.yourCostCents
  const capped = await store.issueKey(accountId, cost)
  const [first, second] = [await ask(store, 'alice', capped), await ask(store, 'bob', capped)]
  await store.reads(await pay(store, first), 'completed')
  const walletCents = await store.balance(key)
  const orderId = await pay(store, second)
  const { chargeCents } = second
  await assertFailed(store, orderId, {
    customer: 'bob',
    reason: 'spend_cap_reached',
    chargeCents,
    walletCents,
  })
})

test('a payment for a product that sold out meanwhile: the order fails, the credit stays, the customer is notified', async (t) => {
  const store = await openWithBot(t)
  const { key } = store.reseller
  const page = await ask(store, 'alice')
  // Everything else is bought by the reseller itself.
  const addresses = (quantity: number) => ({ ...store.four, quantity, method: 'wallet' })
  await store.credit(store.reseller.accountId, 10_000_000)
  for (let quantity = 64, n = 0; quantity >= 1; n += 1) {
    const { status } = await store.order(addresses(quantity), `own ${n}`)
    if (status !== 201) quantity = Math.floor(quantity / 2)
  }
  const walletCents = await store.balance(key)
  const orderId = await pay(store, page)
  const { chargeCents } = page
  await assertFailed(store, orderId, { customer: 'alice', reason: 'out_of_stock', chargeCents, walletCents })
})

test("a payment while the reseller's wallet is short: the order waits a day for its credits, then fails, and the credit stays", async (t) => {
  const store = await openWithBot(t)
  const { accountId, key } = store.reseller
  const { yourCostCents: cost } = store.quote
  const [first, second] = [await ask(store, 'alice'), await ask(store, 'bob')]
  const spend = async (leave: number, reference: string) => {
    const cents = leave - (await store.balance(key))
    const adjust = ['wallet', 'adjust', '--account', accountId, '--cents', String(cents)]
    await store.run(...adjust, '--reference', reference)
  }
  await spend(cost - 1, 'spent')
  const held = [await pay(store, first), await pay(store, second)] as const
  for (const orderId of held) {
    const waiting = await store.read(orderId)
    assert.deepEqual([waiting.status, waiting.failureReason], ['awaiting_payment', 'insufficient_balance'])
  }
  assert.deepEqual(await messagesOf(store), [], 'no message before the decision')
  const retry = await store.order(store.four, 'order of alice', 'alice')
  assert.deepEqual([retry.status, retry.body.code], [402, 'insufficient_balance'])
  // A credit that is enough for one places one of them, within the day.
  await store.credit(accountId, 1)
  const [placed] = await until(async () => {
    const done: string[] = []
    for (const orderId of held) if ((await store.read(orderId)).status === 'completed') done.push(orderId)
    return done.length > 0 ? done : null
  })
  const left = held.find((orderId) => orderId !== placed) as string
  assert.equal(await store.balance(key), 0)
  store.ahead(25 * 60 * 60 * 1000)
  const customer = left === held[0] ? 'alice' : 'bob'
  const { chargeCents } = left === held[0] ? first : second
  const reason = 'insufficient_balance'
  await assertFailed(store, left, { customer, reason, chargeCents, walletCents: 0 })
  await store.credit(accountId, 10_000)
  assert.equal((await store.read(left)).status, 'failed', 'what has failed is not placed by a later credit')
})

test('a waiting order whose customer spent the credit is not retried, so that it delays no other, and fails after its day', async (t) => {
  const store = await openWithBot(t)
  const { accountId, key } = store.reseller
  const { yourCostCents: cost } = store.quote
  const page = await ask(store, 'alice')
  const cents = cost - 1 - (await store.balance(key))
  await store.run(
    ...['wallet', 'adjust', '--account', accountId, '--cents', String(cents), '--reference', 'spent'],
  )
  const orderId = await pay(store, page)
  assert.equal((await store.order(addresses(1), 'another', 'alice')).status, 201)
  await store.credit(accountId, 10_000)
  const { core } = store.farebox
  let rounds = 0
  const tried: unknown[] = []
  const reactor = startAwaitingReactor({
    ...core,
    pool: {
      query: (query: { name: string; text: string }) => {
        if (query.name === 'held-orders') rounds += 1
        return core.pool.query(query)
      },
    } as never,
    runner: {
      ...core.runner,
      run: (command) => {
        tried.push(command.name)
        return core.runner.run(command)
      },
    },
    orderable: async () => true,
    intervalMs: 20,
  })
  t.after(() => reactor.stop())
  await until(() => rounds > 3)
  assert.deepEqual(tried, [], 'its wallet has the cost, its customer has not the price')

  const creditCents = await store.creditOf('alice')
  store.ahead(25 * 60 * 60 * 1000)
  const failed = await store.reads(orderId, 'failed')
  assert.equal(failed.failureReason, 'insufficient_balance')
  assert.equal(await store.creditOf('alice'), creditCents)
  await store.sound()
})
