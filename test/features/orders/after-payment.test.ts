import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import { asCustomer } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { hookTo } from '../webhooks/deliveries.ts'
import { startReceiver } from '../webhooks/receiver.ts'

type App = TestApp<'cardReseller'>

/** A reseller whose customers get messages about their orders from a bot. */
const openWithBot = async (t: TestContext) => {
  const app = await testApp(t, { own: 'file', with: ['cardReseller'] })
  const bot = await app.file('bot.json', { token: '123456:AbC', chatId: '777', apiUrl: app.sandbox })
  await app.run('reseller', 'set', '--account', app.seller.accountId, '--bot', bot)
  return app
}

const messagesOf = async ({ sandbox }: App): Promise<readonly string[]> => {
  const { messages } = (await (await fetch(`${sandbox}/_sandbox/telegram/messages`)).json()) as {
    messages: { text: string }[]
  }
  return messages.map(({ text }) => text)
}

/**
 * Orders four addresses for the customer, who can get messages, and returns the payment page of the refusal.
 */
const ask = async (app: App, customer: string, key = app.seller.key) => {
  const headers = asCustomer(customer, `order of ${customer}`)
  const short = await app.client.post('/api/v1/orders', app.four, { key, headers })
  assert.deepEqual([short.status, short.body.code], [402, 'customer_credit_insufficient'], short.text)
  const { customers } = (await app.reseller.get('/api/v1/reseller/customers')).body
  const { customerId } = customers.find((one: { customer: string }) => one.customer === customer)
  const path = `/api/v1/reseller/customers/${customerId}`
  const patched = await app.reseller.call('PATCH', path, { json: { bot_chat_id: '4242' } })
  assert.equal(patched.status, 200, patched.text)
  return short.body as { depositId: string; chargeCents: number }
}

/** Pays and waits until the money is credited; the order's id. */
const pay = async (app: App, { depositId, chargeCents }: { depositId: string; chargeCents: number }) => {
  await app.act(depositId, 'pay', chargeCents)
  const wanted = { status: 'paid', credited_cents: chargeCents }
  const { order_id: orderId } = await app.untilDeposit(app.seller.key, depositId, wanted)
  return orderId as string
}

/** The order failed for this reason, the money stays in both books, and a retry gets the same answer. */
const assertFailed = async (
  app: App,
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
  const failed = await app.untilOrder(app.seller.key, orderId, 'failed')
  assert.deepEqual([failed.failureReason, failed.payUrl, failed.proxyIds], [reason, null, []])
  assert.equal(await app.listedCredit(customer), chargeCents, "the customer's credit is untouched")
  assert.equal(await app.balance(app.seller.key), walletCents, "the reseller's wallet is untouched")
  const ofCustomer = (one: string) => one.includes(orderId) && !one.includes('your wallet')
  const text = await until(async () => (await messagesOf(app)).find(ofCustomer), {
    timeoutMs: 40_000,
    what: 'the message',
  })
  assert.match(text, /could not be placed.*The money stays in your credit/s)
}

test('a payment whose product was parked meanwhile: the order fails, the credit stays, the customer is notified', async (t) => {
  const app = await openWithBot(t)
  const { core } = app
  const page = await ask(app, 'alice')
  const walletCents = await app.balance(app.seller.key)
  await createCatalogService(core.runner).setState(
    { productId: 'isp-static', state: 'parked', successorId: null },
    operator,
  )
  const orderId = await pay(app, page)
  const { chargeCents } = page
  const reason = 'product_unavailable'
  await assertFailed(app, orderId, { customer: 'alice', reason, chargeCents, walletCents })
  const again = await app.seller.order('alice', app.four, 'order of alice')
  assert.deepEqual([again.status, again.body.status, again.body.failureReason], [200, 'failed', reason])
  // Another key is a new order, and the credit is there for it.
  await createCatalogService(core.runner).setState(
    { productId: 'isp-static', state: 'active', successorId: null },
    operator,
  )
  const next = await until(async () => {
    const answer = await app.seller.order('alice', app.four, 'again')
    return answer.status === 201 && answer.body
  })
  assert.equal(await app.listedCredit('alice'), chargeCents - next.amountCents)
})

test('a payment for a reseller who was blocked meanwhile: the order fails, the credit stays, the customer is notified', async (t) => {
  const app = await openWithBot(t)
  const { accountId, key } = app.seller
  const page = await ask(app, 'alice')
  const walletCents = await app.balance(key)
  await app.accounts.block(accountId as never, 'fraud', operator)
  const orderId = await pay(app, page)
  const { chargeCents } = page
  await assertFailed(app, orderId, {
    customer: 'alice',
    reason: 'account_blocked',
    chargeCents,
    walletCents,
  })
  const again = await app.seller.order('alice', app.four, 'order of alice')
  assert.deepEqual([again.status, again.body.code], [403, 'account_blocked'])
})

test('a payment for a key that has reached its cap: the order fails, the credit stays, the customer is notified', async (t) => {
  const app = await openWithBot(t)
  const { accountId, key } = app.seller
  const cost = app.quote.yourCostCents
  const capped = await app.issueKey(accountId, cost)
  const [first, second] = [await ask(app, 'alice', capped), await ask(app, 'bob', capped)]
  await app.untilOrder(key, await pay(app, first), 'completed')
  const walletCents = await app.balance(key)
  const orderId = await pay(app, second)
  const { chargeCents } = second
  await assertFailed(app, orderId, {
    customer: 'bob',
    reason: 'spend_cap_reached',
    chargeCents,
    walletCents,
  })
})

test("a payment while the reseller's wallet is short: the order waits a day for its credits, then fails, and the credit stays", async (t) => {
  const app = await openWithBot(t)
  const { accountId, key } = app.seller
  const { yourCostCents: cost } = app.quote
  const receiver = await startReceiver(t)
  await hookTo(app, receiver.url, ['order.wallet_short'], app.seller)
  const [first, second] = [await ask(app, 'alice'), await ask(app, 'bob')]
  const spend = async (leave: number, reference: string) => {
    const cents = leave - (await app.balance(key))
    const adjust = ['wallet', 'adjust', '--account', accountId, '--cents', String(cents)]
    await app.run(...adjust, '--reference', reference)
  }
  await spend(cost - 1, 'spent')
  const held = [await pay(app, first), await pay(app, second)] as const
  for (const orderId of held) {
    const { status, waitsFor, walletShortfallCents, waitsUntil } = await app.readOrder(key, orderId)
    assert.deepEqual([status, waitsFor, walletShortfallCents], ['awaiting_payment', 'wallet', 1])
    const delivery = await until(() =>
      receiver.received.find(({ json }) => json.resource === orderId && json.event === 'order.wallet_short'),
    )
    const { status: then, customerId, ...data } = delivery.json.data
    assert.deepEqual([then, data.walletShortfallCents, data.waitsUntil], ['awaiting_payment', 1, waitsUntil])
    assert.match(customerId, /^cus_/)
    const message = await until(async () => (await messagesOf(app)).find((one) => one.includes(orderId)))
    assert.match(message, /your wallet lacks \$0\.01 for your cost/)
  }
  const retry = await app.seller.order('alice', app.four, 'order of alice')
  assert.deepEqual([retry.status, retry.body.code], [402, 'insufficient_balance'])
  // A credit that is enough for one places one of them, within the day.
  await app.credit(accountId, 1)
  const [placed] = await until(async () => {
    const done: string[] = []
    for (const orderId of held)
      if ((await app.readOrder(key, orderId)).status === 'completed') done.push(orderId)
    return done.length > 0 ? done : null
  })
  const left = held.find((orderId) => orderId !== placed) as string
  assert.equal(await app.balance(key), 0)
  app.wait(25 * 60 * 60 * 1000)
  const customer = left === held[0] ? 'alice' : 'bob'
  const { chargeCents } = left === held[0] ? first : second
  const reason = 'insufficient_balance'
  await assertFailed(app, left, { customer, reason, chargeCents, walletCents: 0 })
  await app.credit(accountId, 10_000)
  assert.equal(
    (await app.readOrder(key, left)).status,
    'failed',
    'what has failed is not placed by a later credit',
  )
  const shortages = receiver.received.filter(({ json }) => json.event === 'order.wallet_short')
  assert.equal(shortages.length, 2, 'one event for each order, whatever was tried since')
  const toReseller = (await messagesOf(app)).filter((one) => one.includes('your wallet lacks'))
  assert.equal(toReseller.length, 2)
})

test('an order that waits for the wallet is canceled when its customer spends the credit, and a retry says so', async (t) => {
  const app = await openWithBot(t)
  const { accountId, key } = app.seller
  const pages = [await ask(app, 'alice'), await ask(app, 'bob')] as const
  const cents = app.quote.yourCostCents - 1 - (await app.balance(key))
  await app.run(
    ...['wallet', 'adjust', '--account', accountId, '--cents', String(cents), '--reference', 'spent'],
  )
  const [ofAlice, ofBob] = [await pay(app, pages[0]), await pay(app, pages[1])] as const
  const one = { ...app.four, quantity: 1, method: 'wallet' }
  assert.equal((await app.seller.order('bob', one, 'another of bob')).status, 201)
  const canceled = await app.untilOrder(key, ofBob, 'canceled')
  assert.deepEqual([canceled.cancelReason, canceled.waitsFor], ['insufficient_balance', null])
  assert.equal((await app.readOrder(key, ofAlice)).waitsFor, 'wallet', 'the credit covers this one')
  assert.equal((await app.seller.order('alice', one, 'another of alice')).status, 201)
  const retry = await app.seller.order('alice', app.four, 'order of alice')
  assert.deepEqual([retry.status, retry.body.orderId, retry.body.status], [200, ofAlice, 'canceled'])
  await app.credit(accountId, 10_000)
  assert.equal((await app.readOrder(key, ofAlice)).status, 'canceled')
})

// After all that order addresses on the service of the file.
test('a payment for a product that sold out meanwhile: the order fails, the credit stays, the customer is notified', async (t) => {
  const app = await openWithBot(t)
  const { key } = app.seller
  const page = await ask(app, 'alice')
  // Everything else is bought by the reseller itself.
  const addresses = (quantity: number) => ({ ...app.four, quantity, method: 'wallet' })
  await app.credit(app.seller.accountId, 10_000_000)
  for (let quantity = 64, n = 0; quantity >= 1; n += 1) {
    const { status } = await app.seller.order(null, addresses(quantity), `own ${n}`)
    if (status !== 201) quantity = Math.floor(quantity / 2)
  }
  const walletCents = await app.balance(key)
  const orderId = await pay(app, page)
  const { chargeCents } = page
  await assertFailed(app, orderId, { customer: 'alice', reason: 'out_of_stock', chargeCents, walletCents })
})

test('the log of all these orders passes verification', async (t) => {
  await (await testApp(t, { own: 'file' })).verified()
})
