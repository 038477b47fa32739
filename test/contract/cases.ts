import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createCatalogService } from '../../src/features/catalog/import-catalog.ts'
import { done } from '../support/app-actions.ts'
import { limitAlone } from '../support/four-eyes.ts'
import { type Called, declaredOf } from '../support/http.ts'
import { operator } from '../support/operator.ts'
import type { TestApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import type { Case } from './case.ts'
import { untilExits } from './live.ts'
import { closedUrl, goodRequests, ofScrapers, type Request } from './requests.ts'
import { finishedBatch, scrapeCases } from './scrape-cases.ts'

type Body = Readonly<Record<string, unknown>>

const orders = '/api/v1/orders'
const extend = '/api/v1/proxies/extend'
const deposits = '/api/v1/deposits'
const webhooks = '/api/v1/webhooks'
const subscriptions = '/api/v1/subscriptions'
const resellers = '/api/v1/reseller'
const budgets = '/api/v1/traffic-budgets'
const demoFile = new URL('../../src/app/demo/catalog.json', import.meta.url)

const addresses = (productId: string, quantity: number, meta: object = {}): Body => ({
  product_id: productId,
  quantity,
  fulfillment_meta: { country: 'USA', period_days: 30, ...meta },
})
const monthly = (body: Body): Body => ({ ...body, interval: 'month' })
const plan = (productId: string, quantity: number): Body => ({ product_id: productId, quantity })

/** The demo catalogue with what makes rentals of it impossible to extend: see the cases of `extendProxies`. */
const changedCatalog = (): string => {
  // biome-ignore lint/suspicious/noExplicitAny: a file is changed freely
  const catalog: any = JSON.parse(readFileSync(demoFile, 'utf8'))
  const byId = (id: string) => catalog.products.find((product: { id: string }) => product.id === id)
  byId('ipv6-datacenter').state = 'parked'
  byId('mobile-gateway').state = 'parked'
  byId('isp-static').maxQuantity = 2
  const ipv4 = byId('ipv4-datacenter')
  for (const rate of ipv4.rates)
    rate.countries = rate.countries.filter((country: string) => country !== 'USA')
  const mobile = byId('mobile-dedicated')
  mobile.carriers = mobile.carriers.filter(({ id }: { id: string }) => id !== 'verizon-us')
  for (const rate of mobile.rates)
    rate.carriers = rate.carriers.filter((carrier: string) => carrier !== 'verizon-us')
  return JSON.stringify(catalog)
}

/** A customer who has spent all of its credit on a plan and an address. */
const holder = (name: string) => ({ headers: { ...idempotency(name), 'X-Reseller-Customer-Id': 'c-holder' } })

const buyForCustomer = async ({ client, demo, payCustomer }: TestApp) => {
  const { key, accountId } = demo.reseller
  await payCustomer(accountId, 'c-holder', 600 + 280)
  const buy = async (json: Body) =>
    (await done(client.post(orders, json, { key, ...holder(JSON.stringify(json)) }))).body
  return {
    customerPlan: await buy(plan('residential-premium', 1)),
    customerIsp: await buy(addresses('isp-static', 1)),
  }
}

/** Buys the products of the cases, then changes the catalogue. */
const prepare = async (app: TestApp) => {
  const { client, demo, credit, accounts } = app
  const buy = async (key: string, json: Body) => (await done(client.post(orders, json, { key }))).body
  const { buyer } = demo
  await credit(buyer.accountId, 10_000_000)
  const bought = {
    plan: await buy(buyer.key, plan('residential-premium', 1)),
    timed: await buy(buyer.key, plan('residential-unlimited', 1)),
    parkedPlan: await buy(buyer.key, plan('mobile-gateway', 1)),
    isp: await buy(buyer.key, addresses('isp-static', 3)),
    parkedAddresses: await buy(buyer.key, addresses('ipv6-datacenter', 10)),
    unsoldCountry: await buy(buyer.key, addresses('ipv4-datacenter', 1)),
    unsoldCarrier: await buy(buyer.key, addresses('mobile-dedicated', 1, { carrier_id: 'verizon-us' })),
    awaiting: await buy(buyer.key, { ...plan('residential-premium', 1), method: 'card' }),
    ...(await buyForCustomer(app)),
  }
  const replays = {
    order: await done(
      client.post(orders, plan('residential-basic', 1), { key: buyer.key, headers: idempotency('again') }),
    ),
  }

  const deposit = await done(
    client.post(deposits, { amount_cents: 1234 }, { key: buyer.key, headers: idempotency('again') }),
  )

  const customers = await done(client.get(`${resellers}/customers`, { key: demo.reseller.key }))

  const blocked = await app.customer({ cents: 1_000, scopes: ['buy', 'scrape'] })
  await accounts.block(blocked.accountId, 'chargebacks', operator)

  const poor = await app.customer({ cents: 600 + 280 })
  const poorPlan = await buy(poor.key, plan('residential-premium', 1))
  const poorAddress = await buy(poor.key, addresses('isp-static', 1))

  const revokedKey = await app.issueKey(buyer.accountId)
  await done(client.get('/api/v1/me', { key: revokedKey }))
  const keys = await accounts.read(buyer.accountId as never, operator)
  const last = [...(keys?.keys.keys() ?? [])].at(-1)
  await accounts.revokeKey(last as never, operator)
  await until(async () => (await client.get('/api/v1/me', { key: revokedKey })).status === 401)

  const register = async (account: string) => {
    const made = await done(client.post(webhooks, { url: closedUrl, events: ['ping'] }, { key: account }))
    return made.body as { id: string; secret: string; url: string }
  }
  const subscribe = async (name: string) =>
    await done(
      client.post(subscriptions, monthly(plan('residential-premium', 2)), {
        key: buyer.key,
        headers: idempotency(name),
      }),
    )
  const subscription = await subscribe('again')
  const webhook = await register(buyer.key)
  const removed = await register(buyer.key)
  const disabled = await register(poor.key)
  await done(
    client.call('PATCH', `${webhooks}/${disabled.id}`, { key: poor.key, json: { status: 'disabled' } }),
  )
  for (let n = 0; n < 10; n++) await register(poor.key)
  const ping = (await done(client.post(`${webhooks}/${webhook.id}/test`, undefined, { key: buyer.key }))).body
  // It is listed from here on.
  await done(client.get(`${webhooks}/${webhook.id}/deliveries`, { key: buyer.key }))

  const whitelisted = async (key: string, { planId }: { planId: string }, ...addresses: string[]) => {
    const entries = addresses.map((cidr) => ({ cidr }))
    const { body } = await done(client.post(`/api/v1/plans/${planId}/whitelist`, { entries }, { key }))
    return body.whitelist[0].id as string
  }
  const entryId = await whitelisted(buyer.key, bought.plan, '9.9.1.1')
  await whitelisted(buyer.key, bought.timed, '9.9.1.2')
  for (let n = 0; n < 15; n++)
    await whitelisted(poor.key, poorPlan, ...Array.from({ length: 10 }, (_, at) => `9.9.${10 + n}.${at + 1}`))
  await untilExits(client, buyer.key)

  const budget = async (key: string, json: Body) =>
    (await done(client.call('PUT', budgets, { key, json: { limitBytes: 5_000_000_000, ...json } }))).body
      .id as string
  const budgetId = await budget(buyer.key, { planId: bought.plan.planId, period: 'month' })
  const spareBudgetId = await budget(buyer.key, { planId: bought.plan.planId, period: 'week' })
  const poorList = `/api/v1/plans/${poorPlan.planId}/whitelist?limit=100`
  for (const { id: whitelistEntryId } of (await done(client.get(poorList, { key: poor.key }))).body.whitelist)
    await budget(poor.key, { planId: poorPlan.planId, whitelistEntryId, period: 'day' })

  const otherReseller = await app.customer({ cents: 0, reseller: true })
  await app.run('reseller', 'set', '--account', demo.reseller.accountId, '--price-limits', '0.50-5')
  await limitAlone(app.core.log, 90_000_000_000)

  const cappedKey = await app.issueKey(buyer.accountId, 0, ['buy', 'scrape'], 'everything')

  const catalog = createCatalogService(app.core.runner)
  const result = await catalog.import(changedCatalog(), operator)
  assert.ok(result.outcome === 'done' && result.changed, JSON.stringify(result))
  await until(async () => {
    const { body } = await client.get('/api/v1/products/isp-static', { key: buyer.key })
    return body.maxQuantity === 2
  })
  const movement = await done(
    client.post(
      `${resellers}/movements`,
      { amount_cents: 1, reference: 'held' },
      { key: demo.reseller.key, headers: { 'X-Reseller-Customer-Id': 'c-moved' } },
    ),
  )
  return {
    movementId: movement.body.movementId as string,
    bought,
    replays,
    depositId: deposit.body.deposit_id as string,
    customerId: customers.body.customers[0].customerId as string,
    blocked,
    poor,
    poorPlan,
    poorAddress,
    revokedKey,
    otherReseller,
    entryId,
    budgetId,
    spareBudgetId,
    cappedKey,
    webhook,
    subscriptionId: subscription.body.subscriptionId as string,
    removed,
    disabled,
    deliveryId: ping.deliveryId as string,
  }
}

const withQuery = ({ path, ...request }: Request, query: string): Request => ({
  ...request,
  path: `${path}${path.includes('?') ? '&' : '?'}${query}`,
})

const idempotency = (name: string) => ({ 'Idempotency-Key': name })

type Prepared = Awaited<ReturnType<typeof prepare>>

/** Cases that do not depend on the operation, each derived from its good request. */
const commonCases = (app: TestApp, prepared: Prepared, good: Readonly<Record<string, Request>>): Case[] => {
  const { client, demo, document } = app
  const { buyer, reseller, scraper } = demo
  /** A key of the other scope than the operation needs. */
  const unfit = (operation: string): string => (ofScrapers.has(operation) ? buyer : scraper).key
  type Change = (request: Request, operation: string) => Request
  const ways: readonly [answer: string, how: string, change: Change][] = [
    ['401 unauthorized', 'without a key', (request) => ({ ...request, key: '' })],
    ['401 unauthorized', 'with a revoked key', (request) => ({ ...request, key: prepared.revokedKey })],
    [
      '401 unauthorized',
      'with two different keys in the two headers',
      (request) => ({ ...request, headers: { authorization: `Bearer ${prepared.cappedKey}` } }),
    ],
    [
      '400 invalid_parameter',
      'a position that is no number',
      (request) => ({ ...request, headers: { 'X-Farebox-Position': 'soon' } }),
    ],
    [
      '403 missing_scope',
      'a key of another scope',
      (request, operation) => ({ ...request, key: unfit(operation) }),
    ],
    ['403 account_blocked', 'a blocked account', (request) => ({ ...request, key: prepared.blocked.key })],
    [
      '404 not_found',
      'an id that nothing has',
      (request, operation) => ({
        ...request,
        path: request.path.replace(
          /(isp-static|revenue|assets:gateway:manual|(?:ord|pln|prx|dep|whs|cus|sub|scb|tbg)_[^/?]+|reddit)/,
          operation === 'scrape' ? 'red%00dit' : 'nothing',
        ),
        ...(request.path === extend && { json: { proxy_ids: ['prx_nothing'], period_days: 30 } }),
        ...(operation === 'setTrafficBudget' && {
          json: { ...(request.json as Body), planId: 'pln_nothing' },
        }),
      }),
    ],
    [
      '413 payload_too_large',
      'a body above 256 KiB',
      ({ json: _, ...request }) => ({
        ...request,
        raw: JSON.stringify({ label: 'x'.repeat(300_000) }),
        headers: { 'content-type': 'application/json' },
      }),
    ],
    [
      '415 unsupported_media_type',
      'a body that is no JSON by its type',
      ({ json, ...request }) => ({
        ...request,
        raw: JSON.stringify(json),
        headers: { 'content-type': 'text/plain' },
      }),
    ],
    [
      '400 invalid_body',
      'a body that is broken JSON',
      ({ json: _, ...request }) => ({
        ...request,
        raw: '{"quantity":',
        headers: { 'content-type': 'application/json' },
      }),
    ],
    [
      '400 unknown_field',
      'a field that is not read',
      (request) => ({ ...request, json: { ...(request.json as Body), colour: 'blue' } }),
    ],
    [
      '400 invalid_idempotency_key',
      'a key that is not ASCII',
      (request) => ({ ...request, headers: idempotency('ü') }),
    ],
    [
      '400 idempotency_key_required',
      'a reseller key without an Idempotency-Key',
      (request) => ({ ...request, key: reseller.key }),
    ],
    [
      '409 idempotency_conflict',
      'the key of another order',
      (request) => ({ ...request, headers: idempotency('again') }),
    ],
    [
      '400 invalid_customer_id',
      'a customer whose id is too long',
      (request) => ({ ...request, headers: { 'X-Reseller-Customer-Id': 'x'.repeat(129) } }),
    ],
    [
      '403 reseller_forbidden',
      'a customer on an ordinary key',
      (request, operation) => ({
        ...request,
        ...(!ofScrapers.has(operation) && { key: buyer.key }),
        headers: { 'X-Reseller-Customer-Id': 'c-1' },
      }),
    ],
    ['400 invalid_limit', 'limit=0', (request) => withQuery(request, 'limit=0')],
    ['400 invalid_offset', 'offset=-1', (request) => withQuery(request, 'offset=-1')],
    ['402 spend_cap_reached', "a key's cap", (request) => ({ ...request, key: prepared.cappedKey })],
    ['403 capped_key', 'a key whose cap covers it', (request) => ({ ...request, key: prepared.cappedKey })],
    ['200', 'a good request', (request) => request],
  ]
  const declared = declaredOf(document)
  const replayable = new Set([
    'createOrder',
    'topUpPlan',
    'extendProxies',
    'createSubscription',
    'scrapeBatch',
  ])
  return Object.entries(good).flatMap(([operation, request]) =>
    ways
      .filter(([answer]) => declared.has(`${operation} ${answer}`))
      .filter(([answer]) => answer !== '200' || !replayable.has(operation))
      // The key of an order is none of a replacement, of a scrape, nor of a movement.
      .filter(
        ([answer]) =>
          answer !== '409 idempotency_conflict' ||
          !['replaceProxy', 'scrape', 'scrapeBatch', 'moveCustomerCredit'].includes(operation),
      )
      .map(([answer, how, change]): Case => {
        const { method, path, ...options } = change({ key: buyer.key, ...request }, operation)
        const { key, ...keyless } = options
        const sent = key === '' ? keyless : options
        return { operation, answer, how, send: () => client.call(method, path, sent) }
      }),
  )
}

const ownCases = (app: TestApp, prepared: Prepared): Case[] => {
  const { client, demo } = app
  const { buyer, reseller } = demo
  const { bought, poor, poorPlan, poorAddress } = prepared
  const key = buyer.key
  const get = (operation: string, answer: string, how: string, path: string): Case => ({
    operation,
    answer,
    how,
    send: () => client.get(path, { key }),
  })
  const post = (
    operation: string,
    path: string,
    answer: string,
    how: string,
    json: unknown,
    over: { key?: string; headers?: Readonly<Record<string, string>> } = {},
  ): Case => ({ operation, answer, how, send: () => client.post(path, json, { key, ...over }) })
  const cancel = (answer: string, how: string, orderId: string) =>
    post('cancelOrder', `${orders}/${orderId}/cancel`, answer, how, undefined)
  const order = (answer: string, how: string, json: unknown, over = {}) =>
    post('createOrder', orders, answer, how, json, over)
  const deposit = (answer: string, how: string, json: unknown, over = {}) =>
    post('createDeposit', deposits, answer, how, json, over)
  const topUpPath = ({ planId }: { planId: string }) => `/api/v1/plans/${planId}/topup`
  const topUp = (answer: string, how: string, json: unknown, over = {}, held = bought.plan) =>
    post('topUpPlan', topUpPath(held), answer, how, json, over)
  const keep = (answer: string, how: string, json: Body, over = {}) =>
    post('extendProxies', extend, answer, how, { period_days: 30, ...json }, over)
  const whileDown = (operation: string, ask: Case['send']): Case => ({
    operation,
    answer: '502 gateway_unavailable',
    how: 'the gateway is down',
    send: async () => {
      const url = `${demo.sandbox}/_sandbox/switches`
      const headers = { 'content-type': 'application/json' }
      await fetch(url, { method: 'PUT', headers, body: '{"down":true}' })
      const answer = await ask()
      await fetch(url, { method: 'DELETE' })
      return answer
    },
  })
  const customer = { headers: { ...idempotency('customer'), 'X-Reseller-Customer-Id': 'c-1' } }
  const product = (path: string) => `/api/v1/products/${path}`
  const one = { proxy_ids: [bought.isp.proxyIds[0]] }
  const again = { headers: idempotency('topup-again') }
  const extendAgain = { headers: idempotency('extend-again') }

  return [
    order('201', 'a plan', plan('residential-premium', 1)),
    order('201', 'addresses', addresses('isp-static', 1)),
    order('200', 'a retry', plan('residential-basic', 1), { headers: idempotency('again') }),
    order('400 missing_product', 'no product', { quantity: 1 }),
    order('400 unknown_product', 'an id that no product has', plan('nothing', 1)),
    order('400 invalid_quantity', 'nothing of it', plan('residential-premium', 0)),
    order('400 invalid_quantity', 'more than the maximum', plan('residential-premium', 10_001)),
    order(
      '400 invalid_country',
      'a country that is not sold',
      addresses('isp-static', 1, { country: 'XXX' }),
    ),
    order('400 invalid_period', 'a period that is not sold', addresses('isp-static', 1, { period_days: 31 })),
    order('400 invalid_targeting', 'a city', addresses('isp-static', 1, { city: 'Dallas' })),
    order('400 unsupported_method', 'a method outside the list', {
      ...plan('residential-premium', 1),
      method: 'shells',
    }),
    order('402 customer_credit_insufficient', 'a customer without credit', plan('residential-premium', 1), {
      ...customer,
      key: reseller.key,
    }),
    order('402 insufficient_balance', 'an empty wallet', plan('residential-premium', 1), { key: poor.key }),
    order('403 deposits_not_available', 'a rail without a gateway', {
      ...plan('residential-premium', 1),
      method: 'pix',
    }),
    order('201', 'a pay page', { ...plan('residential-premium', 1), method: 'card' }),
    order('400 invalid_amount', 'more than one invoice takes', {
      ...plan('residential-premium', 5_000),
      method: 'card',
    }),
    whileDown('createOrder', () =>
      client.post(orders, { ...plan('residential-premium', 1), method: 'card' }, { key }),
    ),
    order('409 out_of_stock', 'more than is free', addresses('ipv4-datacenter', 999, { country: 'CAN' })),
    order('409 price_changed', 'another price than the expected', {
      ...plan('residential-premium', 1),
      expected_amount_cents: 1,
    }),
    order('409 product_unavailable', 'a parked product', plan('isp-gateway', 50)),
    order('409 product_unavailable', 'a retired product', plan('residential', 5)),

    cancel('200', 'an order that waits', bought.awaiting.orderId),
    cancel('404 not_found', "another account's order", poorPlan.orderId),
    cancel('409 order_not_waiting', 'a placed order', bought.isp.orderId),

    topUp('201', 'a plan that is held', { quantity: 1 }, again),
    topUp('200', 'a retry', { quantity: 1 }, again),
    topUp('400 invalid_body', 'a plan that is bought again', { quantity: 1 }, {}, bought.timed),
    topUp('400 invalid_quantity', 'a fraction', { quantity: 1.5 }),
    topUp('400 unsupported_method', 'a method outside the list', { quantity: 1, method: 'shells' }),
    topUp('402 insufficient_balance', 'an empty wallet', { quantity: 1 }, { key: poor.key }, poorPlan),
    topUp('403 deposits_not_available', 'a rail without a gateway', { quantity: 1, method: 'pix' }),
    topUp('400 invalid_amount', 'more than one invoice takes', { quantity: 5_000, method: 'card' }),
    whileDown('topUpPlan', () =>
      client.post(topUpPath(bought.plan), { quantity: 1, method: 'card' }, { key }),
    ),
    topUp('404 not_found', "another account's plan", { quantity: 1 }, {}, poorPlan),
    topUp(
      '402 customer_credit_insufficient',
      "a customer's plan, its credit short",
      { quantity: 1 },
      { ...holder('top-up'), key: reseller.key },
      bought.customerPlan,
    ),
    topUp(
      '400 invalid_customer_id',
      "a customer's plan, the customer not named",
      { quantity: 1 },
      { headers: idempotency('unnamed'), key: reseller.key },
      bought.customerPlan,
    ),
    topUp('409 price_changed', 'another price than the expected', { quantity: 1, expected_amount_cents: 1 }),
    topUp('409 product_unavailable', 'a product that was parked', { quantity: 1 }, {}, bought.parkedPlan),

    keep('201', 'an address', one, extendAgain),
    keep('200', 'a retry', one, extendAgain),
    keep('400 invalid_body', 'neither addresses nor an order', {}),
    keep('400 invalid_period', 'a period that is not sold', { ...one, period_days: 31 }),
    keep('400 invalid_quantity', 'more than one order may be', { order_id: bought.isp.orderId }),
    keep('400 invalid_country', 'a country that is sold no more', { order_id: bought.unsoldCountry.orderId }),
    keep('400 invalid_targeting', 'a carrier that is sold no more', {
      order_id: bought.unsoldCarrier.orderId,
    }),
    keep('402 insufficient_balance', 'an empty wallet', { order_id: poorAddress.orderId }, { key: poor.key }),
    keep('404 not_found', "another account's address", { proxy_ids: poorAddress.proxyIds }),
    keep(
      '402 customer_credit_insufficient',
      "a customer's address, its credit short",
      { order_id: bought.customerIsp.orderId },
      { ...holder('extension'), key: reseller.key },
    ),
    keep(
      '400 invalid_customer_id',
      "a customer's address, the customer not named",
      { order_id: bought.customerIsp.orderId },
      { headers: idempotency('unnamed'), key: reseller.key },
    ),
    keep('409 price_changed', 'another price than the expected', { ...one, expected_amount_cents: 1 }),
    keep('409 product_unavailable', 'a product that was parked', {
      order_id: bought.parkedAddresses.orderId,
    }),

    deposit('200', 'a retry', { amount_cents: 1234 }, { headers: idempotency('again') }),
    deposit('400 invalid_amount', 'nothing', { amount_cents: 0 }),
    deposit('400 invalid_amount', 'left out', {}),
    deposit('400 invalid_amount', 'a fraction', { amount_cents: 1.5 }),
    deposit('400 invalid_amount', 'a text', { amount_cents: '2500' }),
    deposit('400 invalid_amount', 'more than $5,000', { amount_cents: 500_001 }),
    deposit('400 unsupported_method', 'a method outside the list', { amount_cents: 2500, method: 'wallet' }),
    deposit(
      '400 unsupported_method',
      'for a customer, a rail that resellers do not have',
      { amount_cents: 2500, method: 'alipay' },
      {
        key: reseller.key,
        headers: { 'X-Reseller-Customer-Id': 'c-1' },
      },
    ),
    deposit('400 invalid_url', 'a return address without TLS', {
      amount_cents: 2500,
      return_url: 'http://a.example',
    }),
    deposit('400 invalid_url', 'a return address with a password', {
      amount_cents: 2500,
      return_url: 'https://a:b@a.example',
    }),
    deposit('403 deposits_not_available', 'a rail without a gateway', { amount_cents: 2500, method: 'pix' }),
    whileDown('createDeposit', () => client.post(deposits, { amount_cents: 2500 }, { key })),
    whileDown('createCardPage', () => client.post('/api/v1/wallet/auto-topup/card', undefined, { key })),
    get('listDeposits', '400 invalid_parameter', 'a status that is none', `${deposits}?status=gone`),

    ...Object.entries({
      listResellerCustomers: 'customers',
      getResellerCustomer: `customers/${prepared.customerId}`,
      getCustomerMovement: `movements/${prepared.movementId}`,
      listMargins: 'margins',
      getStatement: 'statement',
      getResellerTerms: 'terms',
    }).map(([operation, path]) =>
      get(operation, '403 reseller_forbidden', 'an ordinary key', `${resellers}/${path}`),
    ),
    ...resellerCases(app, prepared),
    {
      operation: 'updateResellerCustomer',
      answer: '403 reseller_forbidden',
      how: 'an ordinary key',
      send: () =>
        client.call('PATCH', `${resellers}/customers/${prepared.customerId}`, { key, json: { label: 'x' } }),
    },
    {
      operation: 'getStatement',
      answer: '200',
      how: 'as CSV',
      send: () => client.get(`${resellers}/statement?format=csv`, { key: reseller.key }),
    },
    get('listProducts', '400 invalid_parameter', 'a state that is none', '/api/v1/products?state=gone'),
    get(
      'listAnnouncements',
      '400 invalid_parameter',
      'a kind that is none',
      '/api/v1/announcements?kind=PARTY',
    ),
    get('listOrders', '400 invalid_parameter', 'a status that is none', '/api/v1/orders?status=gone'),
    get('listPlans', '400 invalid_parameter', 'a status that is none', '/api/v1/plans?status=gone'),
    get('listProxies', '400 invalid_parameter', 'a format that is none', '/api/v1/proxies?format=xml'),
    get('listProxies', '400 invalid_country', 'no alpha-3 code', '/api/v1/proxies?country=USAX'),
    get('listProxies', '200', 'as lines', '/api/v1/proxies?format=txt'),
    get('getOrder', '404 not_found', "another account's order", `/api/v1/orders/${poorPlan.orderId}`),
    get('getPlan', '404 not_found', "another account's plan", `/api/v1/plans/${poorPlan.planId}`),
    get('quotePrice', '400 invalid_quantity', 'no quantity', product('isp-static/price')),
    get('quotePrice', '400 invalid_country', 'not sold', product('isp-static/price?quantity=1&country=XXX')),
    get(
      'quotePrice',
      '400 invalid_period',
      'not sold',
      product('isp-static/price?quantity=1&period_days=31'),
    ),
    get(
      'quotePrice',
      '400 invalid_targeting',
      'a carrier of another country',
      product('mobile-dedicated/price?quantity=1&carrier_id=ee-uk'),
    ),
    get('quotePrice', '409 product_unavailable', 'retired', product('residential/price?quantity=1')),
    get(
      'getPriceList',
      '400 invalid_quantity',
      'nothing',
      product('isp-static/price-list?country=USA&quantity=0'),
    ),
    get('getPriceList', '400 invalid_country', 'no country', product('isp-static/price-list')),
    get(
      'getPriceList',
      '400 invalid_period',
      'not sold',
      product('mobile-dedicated/price-list?country=USA&period_days=8'),
    ),
    get(
      'getPriceList',
      '400 no_price_list',
      'sold per GB',
      product('residential-premium/price-list?country=USA'),
    ),
    get('getPriceList', '409 product_unavailable', 'retired', product('residential/price-list?country=USA')),
    get('getOptions', '400 no_options', 'a gateway product', product('residential-premium/options')),
    get('getOptions', '409 product_unavailable', 'retired', product('residential/options')),
    ...replacementCases(app, prepared),
    ...lineCases(app, prepared),
    ...budgetCases(app, prepared),
    ...webhookCases(app, prepared),
    ...subscriptionCases(app, prepared),
  ]
}

/** Those of a rental's address, one of which was replaced by the good request. */
const replacementCases = ({ client, demo }: TestApp, { bought }: Prepared): Case[] => {
  const [other, replaced] = bought.isp.proxyIds
  const replace = (answer: string, how: string, id: string, reason: string, headers = {}): Case => ({
    operation: 'replaceProxy',
    answer,
    how,
    send: () => client.post(`/api/v1/proxies/${id}/replace`, { reason }, { key: demo.buyer.key, headers }),
  })
  return [
    replace('409 replacement_limit_reached', 'the second time in a day', replaced, 'low_speed'),
    replace('409 out_of_stock', 'no other network', other, 'change_network'),
    replace('409 idempotency_conflict', 'the key of another reason', replaced, 'not_working', {
      'Idempotency-Key': 'another-address',
    }),
  ]
}

/** Those of traffic budgets. */
const budgetCases = ({ client, demo }: TestApp, prepared: Prepared): Case[] => {
  const { bought, poor, poorPlan, spareBudgetId } = prepared
  const { key } = demo.buyer
  const set = (answer: string, how: string, json: Body, sentKey = key): Case => ({
    operation: 'setTrafficBudget',
    answer,
    how,
    send: () =>
      client.call('PUT', budgets, {
        key: sentKey,
        json: { period: 'day', limitBytes: 5_000_000_000, ...json },
      }),
  })
  const { planId } = bought.plan
  return [
    set('201', 'another period', { planId }),
    set('400 invalid_body', 'without a plan and a customer', {}),
    set('400 invalid_body', 'a time zone that is none', { planId, timeZone: 'Mars/Olympus' }),
    set('404 not_found', 'a line set that is none', { planId, lineSet: 'nothing0' }),
    set('409 traffic_budget_limit_reached', 'a full plan', { planId: poorPlan.planId }, poor.key),
    {
      operation: 'removeTrafficBudget',
      answer: '204',
      how: 'one that is there',
      send: () => client.call('DELETE', `${budgets}/${spareBudgetId}`, { key }),
    },
  ]
}

/** Those of lines: where they go out, and who needs no credentials. */
const lineCases = ({ client, demo }: TestApp, prepared: Prepared): Case[] => {
  const { bought, poor, poorPlan, entryId } = prepared
  const own = { key: demo.buyer.key }
  const planPath = ({ planId }: { planId: string }, rest: string) => `/api/v1/plans/${planId}/${rest}`
  const generate = (answer: string, how: string, json: Body): Case => ({
    operation: 'generateLines',
    answer,
    how,
    send: () => client.post(planPath(bought.plan, 'generate'), json, own),
  })
  const whitelist = (answer: string, how: string, cidr: string, key = own.key, held = bought.plan): Case => ({
    operation: 'addToWhitelist',
    answer,
    how,
    send: () => client.post(planPath(held, 'whitelist'), { entries: [{ cidr }] }, { key }),
  })
  const listedFor = (answer: string, how: string, targeting: object): Case => ({
    operation: 'addToWhitelist',
    answer,
    how,
    send: () =>
      client.post(planPath(bought.plan, 'whitelist'), { entries: [{ cidr: '9.9.1.5', targeting }] }, own),
  })
  const takeOff = (answer: string, how: string, id: string): Case => ({
    operation: 'removeFromWhitelist',
    answer,
    how,
    send: () => client.call('DELETE', planPath(bought.plan, `whitelist/${id}`), own),
  })
  const geo = (name: string, query: string): Case[] => {
    const operation = `listGeo${name[0]?.toUpperCase()}${name.slice(1)}`
    const path = `/api/v1/geo/${name}`
    const again = async () => {
      const { headers } = await done(client.get(`${path}${query}`, own))
      return client.get(`${path}${query}`, {
        ...own,
        headers: { 'If-None-Match': headers.get('etag') ?? '' },
      })
    }
    const get = (search: string) => () => client.get(`${path}?${search}`, own)
    return [
      { operation, answer: '304', how: 'a list that the client has', send: again },
      {
        operation,
        answer: '400 invalid_parameter',
        how: 'a family that is none',
        send: get('country=us&family=tor'),
      },
      ...(query === ''
        ? []
        : [
            { operation, answer: '400 invalid_targeting', how: 'no country', send: get('limit=1') },
            {
              operation,
              answer: '400 invalid_targeting',
              how: 'a country that is none',
              send: get('country=zz'),
            },
          ]),
    ]
  }
  return [
    generate('400 invalid_count', 'none', { count: 0 }),
    generate('400 invalid_sticky', 'half a minute', { stickyMinutes: 0.5 }),
    generate('400 invalid_targeting', 'a misspelt city', { country: 'us', city: 'dalas' }),
    generate('400 invalid_asn', 'network 0', { asn: 0 }),
    generate('400 invalid_os', 'an unknown system', { os: 'linux' }),
    generate('400 invalid_strict', 'a text', { strict: 'off' }),
    generate('400 invalid_udp', 'over HTTP', { udp: true, protocol: 'http' }),
    generate('400 invalid_exclude', 'the country that is wanted', {
      country: 'us',
      excludeCountries: ['us'],
    }),
    whitelist('201', 'an address', '9.9.1.3'),
    whitelist('400 invalid_ip', 'a private address', '10.0.0.1'),
    listedFor('201', 'an address that goes out of one country', { country: 'us' }),
    listedFor('400 invalid_targeting', 'a misspelt city', { country: 'us', city: 'dalas' }),
    listedFor('400 invalid_asn', 'network 0', { asn: 0 }),
    listedFor('400 invalid_os', 'an unknown system', { os: 'linux' }),
    listedFor('400 invalid_strict', 'a text', { strict: 'off' }),
    listedFor('400 invalid_udp', 'a text', { udp: 'on' }),
    listedFor('400 invalid_exclude', 'the country that is wanted', {
      country: 'us',
      excludeCountries: ['us'],
    }),
    whitelist('409 address_taken', 'an address of another plan', '9.9.1.2'),
    whitelist('409 whitelist_limit_reached', 'one more than 150', '9.9.1.4', poor.key, poorPlan),
    takeOff('204', 'an entry', entryId),
    takeOff('404 not_found', 'an entry that the plan does not have', 'wle_none'),
    ...geo('countries', ''),
    ...['states', 'cities', 'isps', 'asns'].flatMap((name) => geo(name, '?country=us')),
    {
      operation: 'getPlanUsage',
      answer: '400 invalid_parameter',
      how: 'a bucket that is none',
      send: () => client.get(planPath(bought.plan, 'usage?bucket=year'), own),
    },
    {
      operation: 'listPlanRequests',
      answer: '400 invalid_parameter',
      how: 'a cursor that is none',
      send: () => client.get(planPath(bought.plan, 'requests?cursor=nonsense'), own),
    },
    {
      operation: 'getPlanTraffic',
      answer: '400 invalid_parameter',
      how: 'a group that is none',
      send: () => client.get(planPath(bought.plan, 'traffic?group_by=color'), own),
    },
  ]
}

const subscriptionCases = ({ client, demo }: TestApp, prepared: Prepared): Case[] => {
  const key = demo.buyer.key
  const start = (answer: string, how: string, json: unknown, over = {}): Case => ({
    operation: 'createSubscription',
    answer,
    how,
    send: () => client.post(subscriptions, json, { key, ...over }),
  })
  const premium = monthly(plan('residential-premium', 1))
  const forCustomer = (ref: string) => ({ ...idempotency('for-customer'), 'X-Reseller-Customer-Id': ref })
  return [
    start('201', 'by the month', premium),
    start('200', 'a retry', monthly(plan('residential-premium', 2)), { headers: idempotency('again') }),
    start('400 missing_product', 'no product', { quantity: 1, interval: 'month' }),
    start('400 unknown_product', 'an id that no product has', monthly(plan('nothing', 1))),
    start('400 subscription_not_available', 'pay as you go', monthly(plan('residential-basic', 1))),
    start('400 subscription_not_available', 'for a customer', premium, {
      key: demo.reseller.key,
      headers: forCustomer('alice'),
    }),
    start('400 invalid_quantity', 'nothing of it', monthly(plan('residential-premium', 0))),
    start('400 invalid_country', 'not sold', monthly(addresses('isp-static', 1, { country: 'XXX' }))),
    start('400 invalid_period', 'no month', monthly(addresses('isp-static', 1, { period_days: 7 }))),
    start('400 invalid_targeting', 'a city', monthly(addresses('isp-static', 1, { city: 'Dallas' }))),
    start('402 insufficient_balance', 'an empty wallet', premium, { key: prepared.poor.key }),
    start(
      '409 out_of_stock',
      'more than is free',
      monthly(addresses('ipv4-datacenter', 999, { country: 'CAN' })),
    ),
    start('409 price_changed', 'another price', { ...premium, expected_amount_cents: 1 }),
    start('409 product_unavailable', 'a parked product', monthly(plan('isp-gateway', 50))),
    {
      operation: 'listSubscriptions',
      answer: '400 invalid_parameter',
      how: 'a status that is none',
      send: () => client.get(`${subscriptions}?status=gone`, { key }),
    },
  ]
}

const webhookCases = ({ client, demo }: TestApp, prepared: Prepared): Case[] => {
  const { poor, webhook, removed, disabled, deliveryId } = prepared
  const own = { key: demo.buyer.key }
  const url = closedUrl
  const of = (operation: string, answer: string, how: string, send: () => Promise<Called>): Case => ({
    operation,
    answer,
    how,
    send,
  })
  const create = (answer: string, how: string, json: unknown, key = own.key) =>
    of('createWebhook', answer, how, () => client.post(webhooks, json, { key }))
  const update = (answer: string, how: string, json: unknown, id = webhook.id, key = own.key) =>
    of('updateWebhook', answer, how, () => client.call('PATCH', `${webhooks}/${id}`, { json, key }))
  const post = (operation: string, answer: string, how: string, path: string) =>
    of(operation, answer, how, () => client.post(`${webhooks}/${path}`, undefined, own))
  const deliveries = `${webhooks}/${webhook.id}/deliveries`
  return [
    create('201', 'all events', { url }),
    create('400 invalid_events', 'none', { url, events: [] }),
    create('400 invalid_events', 'unknown ones', { url, events: ['order.paid'] }),
    create('400 invalid_url', 'a private address', { url: 'https://192.168.0.1/' }),
    create('409 webhook_limit_reached', 'an eleventh', { url }, poor.key),
    update('400 invalid_events', 'one twice', { events: ['ping', 'ping'] }),
    update('400 invalid_url', 'no URL', { url: 'hooks' }),
    update('409 webhook_limit_reached', 'as the eleventh', { status: 'active' }, disabled.id, poor.key),
    of('deleteWebhook', '204', 'an endpoint', () => client.call('DELETE', `${webhooks}/${removed.id}`, own)),
    post('testWebhook', '202', 'a ping', `${webhook.id}/test`),
    post('redeliverWebhook', '202', 'once more', `${webhook.id}/deliveries/${deliveryId}/redeliver`),
    post('redeliverWebhook', '404 not_found', 'no delivery', `${webhook.id}/deliveries/dlv_none/redeliver`),
    post('redeliverWebhooks', '202', 'all that it missed', `${webhook.id}/redeliver?since=2026-11-21`),
    post(
      'redeliverWebhooks',
      '400 invalid_parameter',
      'no instant',
      `${webhook.id}/redeliver?since=yesterday`,
    ),
    of('listDeliveries', '400 invalid_parameter', 'a status that is none', () =>
      client.get(`${deliveries}?status=lost`, own),
    ),
  ]
}

const financeCases = (
  { client, financeToken, demo }: TestApp<'financeToken'>,
  good: Readonly<Record<string, Request>>,
): readonly Case[] => {
  const operations = ['getTrialBalance', 'getAccountBalance', 'getAccountStatement', 'listOrderEntries']
  const each = (how: string, answer: string, key: string, query: string): Case[] =>
    operations
      .filter((operation) => query === '' || operation !== 'listOrderEntries')
      .map((operation) => ({
        operation,
        answer,
        how,
        send: () => client.get(`${good[operation]?.path}${query}`, { key }),
      }))
  return [
    ...each('an API key', '401 unauthorized', demo.buyer.key, ''),
    ...each('a token of the right form', '401 unauthorized', `fbf_${'0'.repeat(40)}`, ''),
    ...each('a moment that is none', '400 invalid_parameter', financeToken, '?as_of=yesterday'),
    ...each('a position past the end', '400 invalid_parameter', financeToken, '?as_of=999999999'),
    ...each('a time to come', '400 invalid_parameter', financeToken, '?as_of=2126-11-21'),
    ...each('a range to a time to come', '400 invalid_parameter', financeToken, '?to=2126-11-21'),
    ...each('a moment and a range', '400 invalid_parameter', financeToken, '?as_of=1&from=1'),
    ...each('as of a position', '200', financeToken, '?as_of=pos_0_20&limit=1'),
    ...each('as of a position of another log', '400 invalid_parameter', financeToken, '?as_of=pos_1_20'),
    ...each('over a range', '200', financeToken, '?from=2026-01-01&to=2026-11-21&book=service'),
    {
      operation: 'getMe',
      answer: '401 unauthorized',
      how: 'a finance token',
      send: () => client.get('/api/v1/me', { key: financeToken }),
    },
  ]
}

/** Prices and movements of resellers. */
const resellerCases = ({ client, demo, run }: TestApp, { otherReseller }: Prepared): Case[] => {
  const { buyer, reseller } = demo
  const markup = (answer: string, how: string, key: string, value: string): Case => ({
    operation: 'updateResellerTerms',
    answer,
    how,
    send: () => client.call('PATCH', `${resellers}/terms`, { key, json: { markup: value } }),
  })
  const price = (answer: string, how: string, key: string, json: object): Case => ({
    operation: 'setResellerPrice',
    answer,
    how,
    send: () => client.call('PUT', `${resellers}/prices`, { key, json: { unit_price: '3.50', ...json } }),
  })
  const move = (
    json: object,
    headers: Readonly<Record<string, string>> = { 'X-Reseller-Customer-Id': 'c-moved' },
  ) => client.post(`${resellers}/movements`, { reference: 'case', ...json }, { key: reseller.key, headers })
  const moved = (answer: string, how: string, send: Case['send']): Case => ({
    operation: 'moveCustomerCredit',
    answer,
    how,
    send,
  })
  const premium = { product_id: 'residential-premium' }
  const large = { amount_cents: 95_000_000_000, reference: 'large' }
  return [
    markup('403 reseller_forbidden', 'an ordinary key', buyer.key, '1.5'),
    markup('403 prices_not_allowed', 'without limits', otherReseller.key, '1.5'),
    markup('400 price_outside_limits', 'above the limits', reseller.key, '50'),
    markup('400 price_below_cost', 'below the cost', reseller.key, '0.6'),
    price('400 price_below_cost', 'below the cost of one unit', reseller.key, {
      ...premium,
      unit_price: '3.00',
    }),
    price('403 reseller_forbidden', 'an ordinary key', buyer.key, premium),
    price('403 prices_not_allowed', 'without limits', otherReseller.key, premium),
    price('400 price_outside_limits', 'above the limits', reseller.key, { ...premium, unit_price: '9000' }),
    price('400 unknown_product', 'an id that no product has', reseller.key, { product_id: 'nothing' }),
    price('400 invalid_country', 'a country of a plan', reseller.key, { ...premium, countries: ['USA'] }),
    price('400 invalid_period', 'a period of a plan', reseller.key, { ...premium, periods: [30] }),
    moved('403 reseller_forbidden', 'an ordinary key', () =>
      client.post(`${resellers}/movements`, { amount_cents: 1, reference: 'x' }, { key: buyer.key }),
    ),
    moved('400 invalid_customer_id', 'without a customer', () => move({ amount_cents: 1 }, {})),
    moved('400 invalid_amount', 'nothing', () => move({ amount_cents: 0 })),
    moved('402 customer_credit_insufficient', 'more than the credit', () => move({ amount_cents: -5 })),
    moved('409 already_applied', 'a repeated reference', async () => {
      await move({ amount_cents: 1, reference: 'twice' })
      return move({ amount_cents: 1, reference: 'twice' })
    }),
    moved('202', 'above the approval limit', () => move(large)),
    moved('409 movement_declined', 'a reference that an operator declined', async () => {
      const { body } = await move({ ...large, reference: 'declined' })
      await run('proposals', 'decline', body.proposalId)
      return move({ ...large, reference: 'declined' })
    }),
    moved('409 idempotency_conflict', 'another amount under a proposed reference', () =>
      move({ ...large, amount_cents: 95_000_000_001 }),
    ),
  ]
}

/** Everything that the service answers while nothing is wrong with it. */
export const orderlyCases = async (
  app: TestApp<'financeToken'>,
): Promise<{ cases: readonly Case[]; prepared: Prepared }> => {
  const prepared = await prepare(app)
  const { isp, plan: held } = prepared.bought
  const good = goodRequests({
    orderId: isp.orderId,
    waitingOrderId: prepared.bought.awaiting.orderId,
    planId: held.planId,
    proxyId: isp.proxyIds[1],
    entryId: prepared.entryId,
    budgetId: prepared.budgetId,
    depositId: prepared.depositId,
    webhookId: prepared.webhook.id,
    subscriptionId: prepared.subscriptionId,
    deliveryId: prepared.deliveryId,
    resellerKey: app.demo.reseller.key,
    customerId: prepared.customerId,
    movementId: prepared.movementId,
    financeToken: app.financeToken,
    scraperKey: app.demo.scraper.key,
    batchId: await finishedBatch(app),
  })
  return {
    cases: [
      ...commonCases(app, prepared, good),
      ...ownCases(app, prepared),
      ...financeCases(app, good),
      ...(await scrapeCases(app)),
    ],
    prepared,
  }
}

/** Sends a case, checks its answer, and returns the answer in the form of `declaredOf`. */
export const play = async ({ operation, answer, how, send }: Case): Promise<string> => {
  const { status, body, text } = await send()
  const given = status >= 400 ? `${status} ${body.code}` : String(status)
  assert.equal(given, answer, `${operation}: ${how}: ${text}`)
  return `${operation} ${given}`
}
