import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { done } from '../support/app-actions.ts'
import fc, { runs } from '../support/fast-check.ts'
import type { Called } from '../support/http.ts'
import { type TestApp, testApp } from '../support/test-app.ts'
import { untilExits } from './live.ts'
import { closedUrl, goodRequests, type Holdings, ofScrapers, type Request } from './requests.ts'

const soak = process.env.FAREBOX_SOAK === '1'

/**
 * Operations without personal data: the same for every customer. Any other operation limits, charges or
 * refuses.
 */
const unaffected = new Set([
  'getMe',
  'listAnnouncements',
  'listProducts',
  'getProduct',
  'quotePrice',
  'getPriceList',
  'getOptions',
  'listGeoCountries',
  'listGeoStates',
  'listGeoCities',
  'listGeoIsps',
  'listGeoAsns',
])

/** By their path alone: what has no customer's id in it and yet names one thing. */
const namesOneThing = ({ method, path }: Request) =>
  /_[0-9a-f]{32}|_none/.test(path) ||
  (method === 'POST' && path.endsWith('/extend')) ||
  (method === 'PUT' && path.endsWith('/traffic-budgets'))

const idPattern = /\b(?:ord|dep|pln|prx|cus|txn|ref|sub|whs|dlv|wle|tbg)_[0-9a-z]{8,}/g

/** One for whom the reseller bought, or the reseller itself: `ref` null. */
type Party = {
  readonly ref: string | null
  readonly holdings: Holdings
  /** Ids, addresses, passwords, labels and names that must not be shown to others. */
  readonly secrets: ReadonlySet<string>
}

type Whose = 'own' | "another's" | "the account's"
type Named = 'header' | 'query' | 'both'

const openTwo = async (app: TestApp<'financeToken'>) => {
  const { client, payCustomer } = app
  const { accountId, key } = app.demo.reseller
  await app.credit(accountId, 50_000_000)
  for (const [rail, provider] of [
    ['card', 'stripe'],
    ['crypto', 'btcpay'],
  ] as const) {
    const gateway = ['reseller', 'gateway', '--account', accountId, '--rail', rail, '--provider', provider]
    await app.run(...gateway, '--sandbox')
  }
  const { id: webhookId } = (await done(client.post('/api/v1/webhooks', { url: closedUrl }, { key }))).body
  const subscribed = await done(
    client.post(
      '/api/v1/subscriptions',
      { product_id: 'residential-premium', quantity: 1, interval: 'month' },
      { key, headers: { 'Idempotency-Key': 'own-subscription' } },
    ),
  )

  let networks = 0
  const open = async (ref: string | null): Promise<Party> => {
    const secrets = new Set<string>()
    const send = async (method: string, path: string, json?: unknown): Promise<Called> => {
      const headers = {
        'Idempotency-Key': randomUUID(),
        ...(ref !== null && { 'X-Reseller-Customer-Id': ref }),
      }
      const sent = { key, headers, ...(json !== undefined && { json }) }
      return client.call(method, `/api/v1/${path}`, sent)
    }
    const hear = ({ text }: Called) => {
      for (const [id] of text.matchAll(idPattern)) secrets.add(id)
      for (const [, secret] of text.matchAll(/"(?:ip|username|password|pay_url|payUrl)":"([^"]+)"/g))
        secrets.add(secret!)
    }
    const made = async (path: string, json: unknown) => {
      const answer = await done(send('POST', path, json))
      hear(answer)
      return answer.body
    }
    // The first order of a customer opens its invoice, and with it the relation.
    const awaiting = await send('POST', 'orders', {
      product_id: 'residential-basic',
      quantity: 1,
      method: 'card',
    })
    hear(awaiting)
    if (ref !== null) {
      assert.equal(awaiting.body.code, 'customer_credit_insufficient', awaiting.text)
      const customerId = await payCustomer(accountId, ref, 5_000_000)
      secrets.add(ref).add(customerId)
    }
    const plan = await made('orders', { product_id: 'residential-premium', quantity: 2 })
    const rented = await made('orders', {
      product_id: 'isp-static',
      quantity: 2,
      fulfillment_meta: { country: 'USA', period_days: 30 },
    })
    const deposit = await made('deposits', { amount_cents: 4321, method: 'card' })
    const label = `label of ${ref}`
    secrets.add(label)
    hear(await done(send('PATCH', `plans/${plan.planId}`, { label })))
    hear(await done(send('PATCH', `proxies/${rented.proxyIds[0]}`, { label })))
    const relations = ref === null ? null : await done(send('GET', 'reseller/customers'))
    const customerId = relations?.body.customers[0].customerId ?? 'cus_none'
    if (ref !== null) await done(send('PATCH', `reseller/customers/${customerId}`, { label }))
    const movementId =
      ref === null
        ? 'dep_none'
        : (await made('reseller/movements', { amount_cents: 1, reference: randomUUID() })).movementId
    const network = `9.10.0.${++networks}`
    const listed = await made(`plans/${plan.planId}/whitelist`, { entries: [{ cidr: network, label }] })
    const [entry] = listed.whitelist
    const budget = await done(
      send('PUT', 'traffic-budgets', { planId: plan.planId, period: 'month', limitBytes: 5_000_000_000 }),
    )
    hear(budget)
    secrets.add(network)
    for (const path of [
      'orders',
      'plans',
      'proxies',
      'deposits',
      'wallet/transactions',
      'reseller/statement',
    ])
      hear(await done(send('GET', path)))
    return {
      ref,
      secrets,
      holdings: {
        orderId: rented.orderId,
        waitingOrderId: awaiting.body.orderId,
        planId: plan.planId,
        proxyId: rented.proxyIds[1],
        entryId: entry.id,
        budgetId: budget.body.id,
        depositId: deposit.deposit_id,
        webhookId,
        subscriptionId: subscribed.body.subscriptionId,
        deliveryId: 'dlv_none',
        resellerKey: key,
        customerId,
        movementId,
        financeToken: app.financeToken,
        scraperKey: app.demo.scraper.key,
        batchId: 'scb_none',
      },
    }
  }
  // The reseller's own data is open to the reseller only; of its lists only its own entries are secret here.
  const alice = await open('alice-17-of-acme')
  const bob = await open('bob-4-of-acme')
  const { secrets: _, ...own } = await open(null)
  const { orderId, planId, proxyId, depositId, subscriptionId, budgetId } = own.holdings
  return {
    alice,
    bob,
    own: { ...own, secrets: new Set([orderId, planId, proxyId, depositId, subscriptionId, budgetId]) },
  }
}

/** An id that nothing has, in the place of each. */
const absent = (held: Holdings): Holdings => {
  const none = (id: string) => id.replace(/_.+$/, `_${'0'.repeat(32)}`)
  return {
    ...held,
    orderId: none(held.orderId),
    planId: none(held.planId),
    entryId: none(held.entryId),
    budgetId: none(held.budgetId),
    proxyId: none(held.proxyId),
    depositId: none(held.depositId),
    webhookId: none(held.webhookId),
    subscriptionId: none(held.subscriptionId),
    customerId: none(held.customerId),
  }
}

const plainError = ({ body: { requestId: _, ...body } }: Called, held: Holdings): string =>
  Object.values(held).reduce((text, id) => text.replaceAll(id, ''), JSON.stringify(body))

test('a request for one customer never shows or changes data of another customer or of the account', async (t) => {
  const app = await testApp(t, { with: ['financeToken'] })
  const { client, document } = app
  const { alice, bob, own } = await openTwo(app)
  const key = bob.holdings.resellerKey
  await untilExits(client, key)
  const operations = Object.keys(goodRequests(bob.holdings))
  const limited = new Set(
    Object.values(document.paths)
      .flatMap(
        (methods) => Object.values(methods) as { operationId: string; parameters?: { $ref?: string }[] }[],
      )
      .filter(({ parameters = [] }) =>
        parameters.some(({ $ref }) => $ref?.endsWith('/X-Reseller-Customer-Id')),
      )
      .map(({ operationId }) => operationId),
  )

  let listed = 0
  /** An entry of Bob's whitelist, to be removed once. */
  const anEntry = async (): Promise<string> => {
    listed += 1
    const entries = [{ cidr: `9.11.${listed >> 8}.${listed & 255}` }]
    const path = `/api/v1/plans/${bob.holdings.planId}/whitelist`
    const { body } = await done(
      client.post(path, { entries }, { key, headers: { 'X-Reseller-Customer-Id': bob.ref! } }),
    )
    return body.whitelist[0].id
  }

  /** A budget of Bob's, to be removed once. */
  const aBudget = async (): Promise<string> => {
    const whitelistEntryId = await anEntry()
    const { planId } = bob.holdings
    const json = { planId, whitelistEntryId, period: 'day', limitBytes: 5_000_000_000 }
    return (await done(client.call('PUT', '/api/v1/traffic-budgets', { key, json }))).body.id
  }

  const ask = (request: Request, named: Named | null): Promise<Called> => {
    const { method, path, ...options } = request
    const ref = bob.ref!
    const inQuery = named === 'query' || named === 'both'
    const query = inQuery
      ? `${path.includes('?') ? '&' : '?'}customer_id=${encodeURIComponent(` ${ref} `)}`
      : ''
    // A good request may name a customer of its own.
    const { 'X-Reseller-Customer-Id': _, ...otherHeaders } = {
      'X-Reseller-Customer-Id': '',
      ...options.headers,
    }
    const headers = {
      ...(method === 'POST' && { 'Idempotency-Key': randomUUID() }),
      ...otherHeaders,
      ...((named === 'header' || named === 'both') && { 'X-Reseller-Customer-Id': `\t${ref} ` }),
    }
    return client.call(method, `${path}${query}`, { ...options, headers, key })
  }

  /** The answer contains none of it, except the requested id. */
  const showsNothingOf = (party: Party, { text }: Called, request: Request, what: string): void => {
    const sent = JSON.stringify(request)
    for (const secret of party.secrets)
      if (!sent.includes(secret)) assert.ok(!text.includes(secret), `${what} shows ${secret}: ${text}`)
  }

  /** Calls one operation as Bob, on his data or not, and checks the answer. */
  const tried = async (operation: string, whose: Whose, named: Named): Promise<Called | null> => {
    const holder = { own: bob, "another's": alice, "the account's": own }[whose]
    const held = {
      ...holder.holdings,
      ...(holder === bob && operation === 'removeFromWhitelist' && { entryId: await anEntry() }),
      ...(holder === bob && operation === 'removeTrafficBudget' && { budgetId: await aBudget() }),
    }
    const request = goodRequests(held)[operation]!
    // Opened by a token, which names no customer, or by a key of another scope.
    if (/^\/finance\//.test(request.path) || ofScrapers.has(operation)) return null
    const what = `${operation} of ${whose} by ${named}`
    const answer = await ask(request, named)
    showsNothingOf(alice, answer, request, what)
    showsNothingOf(own, answer, request, what)
    if (unaffected.has(operation)) {
      assert.deepEqual([answer.status, answer.body], [200, (await ask(request, null)).body], what)
      return answer
    }
    if (!limited.has(operation)) {
      const codes = ['invalid_customer_id', 'subscription_not_available']
      assert.ok(answer.status === 400 && codes.includes(answer.body.code), `${what}: ${answer.text}`)
      return answer
    }
    const isHidden = holder !== bob || request.path.includes(bob.holdings.subscriptionId)
    if (!namesOneThing(request) || !isHidden) {
      assert.ok(answer.status < 300, `${what}: ${answer.text}`)
      return answer
    }
    assert.deepEqual([answer.status, answer.body.code], [404, 'not_found'], `${what}: ${answer.text}`)
    const none = absent(holder.holdings)
    const missing = await ask(goodRequests(none)[operation]!, named)
    assert.equal(
      plainError(answer, holder.holdings),
      plainError(missing, none),
      `${what} differs from absent`,
    )
    return answer
  }

  /** All readable data of Alice, and the account's own data. */
  const state = async () => {
    const headers = { 'X-Reseller-Customer-Id': alice.ref! }
    const ofAlice = [
      'orders',
      'plans',
      'proxies',
      'deposits',
      'wallet/transactions',
      'reseller/customers',
      'reseller/margins?group_by=customer',
      'reseller/statement',
      'traffic-budgets',
      `plans/${alice.holdings.planId}/whitelist`,
      `plans/${alice.holdings.planId}/usage?from=2026-01-01&to=2026-01-02`,
    ].map((path) => done(client.get(`/api/v1/${path}`, { key, headers })))
    const ofAccount = [
      'subscriptions',
      'webhooks',
      ...[own.holdings.planId].flatMap((id) => [`plans/${id}`, `plans/${id}/whitelist`]),
      `traffic-budgets/${own.holdings.budgetId}`,
      ...[own.holdings.orderId].map((id) => `orders/${id}`),
      ...[own.holdings.depositId].map((id) => `deposits/${id}`),
      `proxies?order_id=${own.holdings.orderId}`,
    ].map((path) => done(client.get(`/api/v1/${path}`, { key })))
    return (await Promise.all([...ofAlice, ...ofAccount])).map(({ body }) => body)
  }
  const before = await state()

  await t.test('each operation, for each way to name the customer', async () => {
    const ways = ['header', 'query', 'both'] as const
    for (const [n, operation] of operations.entries())
      for (const [m, whose] of (["another's", "the account's", 'own'] as const).entries())
        for (const named of soak ? ways : [ways[(n + m) % 3]!]) await tried(operation, whose, named)
    assert.deepEqual(await state(), before)
  })

  await t.test('lists show data of the customer, and all of it', async () => {
    const own = { key, headers: { 'X-Reseller-Customer-Id': bob.ref! } }
    for (const [path, list, customer] of [
      ['orders', 'orders', 'customer'],
      ['plans', 'plans', 'customer'],
      ['proxies', 'proxies', 'customer'],
      ['deposits', 'deposits', 'customer'],
      ['traffic-budgets', 'trafficBudgets', 'customer'],
      ['reseller/customers', 'customers', 'customer'],
      ['reseller/statement', 'lines', 'customer'],
      ['reseller/margins?group_by=customer', 'margins', 'customer'],
      ['wallet/transactions', 'transactions', 'customerId'],
    ] as const) {
      const all = (await done(client.get(`/api/v1/${path}`, { key }))).body[list]
      const his = all.filter((one: Record<string, string>) =>
        [bob.ref, bob.holdings.customerId].includes(one[customer]!),
      )
      assert.ok(his.length > 0 && all.length > his.length, path)
      const limited = (await done(client.get(`/api/v1/${path}`, own))).body
      assert.deepEqual(limited[list], his, path)
      if ('total' in limited) assert.equal(limited.total, his.length, path)
    }
  })

  await t.test('every form and filter of the lists', async () => {
    const { orderId, planId, subscriptionId } = alice.holdings
    const line = (await done(client.get('/api/v1/reseller/statement', { key }))).body.lines.find(
      ({ customer }: { customer: string }) => customer === alice.ref,
    ).orderId
    for (const path of [
      'proxies?format=txt&limit=1',
      'proxies?status=active&format=txt',
      `proxies?order_id=${orderId}`,
      `orders?subscription_id=${subscriptionId}`,
      'orders?status=awaiting_payment',
      'orders?limit=1&offset=1',
      'plans?status=active',
      'deposits?status=awaiting_payment',
      'reseller/margins?group_by=day',
      'reseller/margins?group_by=product',
      'reseller/margins?group_by=customer&from=2026-01-01',
      'reseller/statement?format=csv',
      `reseller/statement?after=${line}`,
      `reseller/customers?customer=${alice.ref}`,
      `plans/${planId}`,
      `traffic-budgets?plan_id=${planId}`,
    ])
      for (const named of ['header', 'query'] as const) {
        const request = { method: 'GET', path: `/api/v1/${path}` }
        const answer = await ask(request, named)
        showsNothingOf(alice, answer, request, path)
        showsNothingOf(own, answer, request, path)
        assert.ok(answer.status < 300 || /after=|plans\/|customers/.test(path), `${path}: ${answer.text}`)
        const next = /<([^>]+)>/.exec(answer.headers.get('link') ?? '')?.[1]
        if (next !== undefined) {
          const following = await client.get(next, { key })
          showsNothingOf(alice, following, request, next)
        }
      }
  })

  await t.test('in any order', async () => {
    const step = fc.record({
      operation: fc.constantFrom(...operations),
      whose: fc.constantFrom<Whose>('own', "another's", "the account's"),
      named: fc.constantFrom<Named>('header', 'query', 'both'),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 15 }), async (steps) => {
        await Promise.all(steps.map(({ operation, whose, named }) => tried(operation, whose, named)))
        assert.deepEqual(await state(), before)
      }),
      { numRuns: runs(4, 200) },
    )
  })

  await t.test('a customer that does not exist has no data, and a read does not create it', async () => {
    const headers = { 'X-Reseller-Customer-Id': 'unknown' }
    const total = async () => (await done(client.get('/api/v1/reseller/customers', { key }))).body.total
    const customers = await total()
    for (const operation of operations) {
      const request = goodRequests(bob.holdings)[operation]!
      if (request.method !== 'GET' || !limited.has(operation)) continue
      const { status, body, text } = await client.get(request.path, { key, headers })
      if (namesOneThing(request)) assert.equal(body.code, 'not_found', `${operation}: ${text}`)
      else {
        assert.equal(status, 200, `${operation}: ${text}`)
        for (const list of Object.values(body).filter(Array.isArray)) assert.deepEqual(list, [], operation)
      }
    }
    assert.equal(await total(), customers)
  })

  await t.test('two different customers in one request are refused', async () => {
    const headers = { 'X-Reseller-Customer-Id': bob.ref! }
    const refused = await client.get(`/api/v1/orders?customer_id=${alice.ref}`, { key, headers })
    assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_customer_id'])
    assert.match(refused.body.error, /names another customer/)
    for (const bad of ['', '%20', 'x'.repeat(129), 'a%00b', `a&customer_id=b`]) {
      const answer = await client.get(`/api/v1/orders?customer_id=${bad}`, { key })
      assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_customer_id'], bad)
    }
  })
})
