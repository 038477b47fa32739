import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCompletion } from '../../../src/features/orders/complete-orders.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { httpClientOf } from '../../support/http.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const orders = '/api/v1/orders'
const key = (name: string) => ({ headers: { 'Idempotency-Key': name } })
const plan = (quantity: number, more: object = {}) => ({
  product_id: 'residential-premium',
  quantity,
  ...more,
})
const addresses = (quantity: number, meta: object = {}) => ({
  product_id: 'isp-static',
  quantity,
  fulfillment_meta: { country: 'USA', period_days: 30, ...meta },
})

test('orders over HTTP', async (t) => {
  const app = await testApp(t)
  const { buyer, reseller, scraper, baseUrl } = app
  const balance = async () => (await buyer.get('/api/v1/wallet')).body.balanceCents as number

  /** Sends a request that must be refused, and checks that nothing was charged. */
  const refused = async (json: unknown, status: number, code: string, message: RegExp, name = 'refused') => {
    const before = await balance()
    const answer = await buyer.post(orders, json, key(name))
    assert.deepEqual([answer.status, answer.body.code], [status, code], answer.text)
    assert.match(answer.body.error, message)
    assert.equal(await balance(), before, 'a refusal charged the wallet')
    return answer.body
  }

  await t.test('a plan is bought from the wallet and can be read at once', async () => {
    const before = await balance()
    const quote = await buyer.get('/api/v1/products/residential-premium/price?quantity=5')
    const { status, body } = await buyer.post(
      orders,
      plan(5, { expected_amount_cents: quote.body.amountCents }),
      key('a'),
    )
    assert.equal(status, 201)
    assert.equal(body.status, 'completed')
    assert.equal(body.balanceCents, before - quote.body.amountCents)
    assert.equal(await balance(), body.balanceCents)
    assert.deepEqual((await buyer.get(`${orders}/${body.orderId}`)).body, body)
    const read = await buyer.get(`/api/v1/plans/${body.planId}`)
    assert.deepEqual([read.body.dataGbTotal, read.body.status], [5, 'active'])
    assert.deepEqual(read.body.orderIds, [body.orderId])
  })

  await t.test('ordering the product again tops up the held plan', async () => {
    const { body } = await buyer.post(orders, plan(3), key('b'))
    const read = await buyer.get(`/api/v1/plans/${body.planId}`)
    assert.equal(read.body.dataGbTotal, 8)
    const listed = await buyer.get('/api/v1/plans?product=resi-premium')
    assert.equal(listed.body.total, 1)
  })

  await t.test('a top-up by plan id adds to the plan and returns it with the order', async () => {
    const [held] = (await buyer.get('/api/v1/plans')).body.plans
    const path = `/api/v1/plans/${held.planId}/topup`
    const { status, body } = await buyer.post(path, { quantity: 2 }, key('top'))
    assert.deepEqual([status, body.kind, body.plan.dataGbTotal], [201, 'topup', 10])
    const again = await buyer.post(path, { quantity: 2 }, key('top'))
    assert.deepEqual([again.status, again.body.orderId, again.body.plan.dataGbTotal], [200, body.orderId, 10])
    const foreign = await reseller.post(path, { quantity: 2 }, key('top'))
    assert.deepEqual([foreign.status, foreign.body.code], [404, 'not_found'])
    const absent = await buyer.post('/api/v1/plans/pln_none/topup', { quantity: 2 }, key('top2'))
    assert.deepEqual([absent.status, absent.body.code], [404, 'not_found'])
  })

  await t.test('a separate new plan is not topped up', async () => {
    const { body } = await buyer.post(
      orders,
      { product_id: 'residential-unlimited', quantity: 1 },
      key('timed'),
    )
    assert.equal(body.status, 'completed', JSON.stringify(body))
    const answer = await buyer.post(`/api/v1/plans/${body.planId}/topup`, { quantity: 1 }, key('timed-top'))
    assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_body'])
    assert.match(answer.body.error, /POST \/api\/v1\/orders/)
  })

  await t.test('addresses are rented, listed with credentials, and never rented twice', async () => {
    const first = await buyer.post(orders, addresses(3), key('c'))
    assert.equal(first.status, 201)
    const second = await buyer.post(orders, addresses(3), key('d'))
    const list = await buyer.get(`/api/v1/proxies?product_id=isp-static&limit=100`)
    const ips = list.body.proxies.map(({ ip }: { ip: string }) => ip)
    assert.equal(new Set(ips).size, 6)
    assert.deepEqual(
      new Set(list.body.proxies.map(({ proxyId }: { proxyId: string }) => proxyId)),
      new Set([...first.body.proxyIds, ...second.body.proxyIds]),
    )
    const lines = await buyer.get(`/api/v1/proxies?order_id=${first.body.orderId}&format=txt`)
    assert.match(lines.text, /^(\S+:9000:[a-z0-9]+:[A-Za-z0-9]+\n){3}$/)
  })

  await t.test('a retry with its key returns the same order and charges once', async () => {
    const before = await balance()
    const first = await buyer.post(orders, addresses(1), key('retry'))
    const again = await buyer.post(orders, addresses(1), key('retry'))
    assert.equal(again.status, 200)
    assert.equal(again.headers.get('idempotency-replayed'), 'true')
    const position = first.headers.get('x-farebox-position')
    assert.match(position ?? '', /^pos_0_[1-9]\d*$/)
    assert.equal(again.headers.get('x-farebox-position'), position)
    assert.deepEqual(again.body, first.body)
    assert.equal(await balance(), before - first.body.amountCents)
    // The guard is not part of what makes a request the same (docs/reference/api.md, "Idempotency").
    const guarded = await buyer.post(orders, { ...addresses(1), expected_amount_cents: 1 }, key('retry'))
    assert.equal(guarded.status, 200)
  })

  await t.test('null and the method wallet equal an omitted field', async () => {
    const unset = { fulfillment_meta: null, method: null, expected_amount_cents: null }
    const same = [plan(4), plan(4, { method: 'wallet' }), plan(4, unset)]
    for (const [at, first] of same.entries()) {
      const made = await buyer.post(orders, first, key(`unset ${at}`))
      assert.equal(made.status, 201, made.text)
      const before = await balance()
      for (const again of same) {
        const { status, body, text } = await buyer.post(orders, again, key(`unset ${at}`))
        assert.deepEqual([status, body.orderId], [200, made.body.orderId], text)
      }
      assert.equal(await balance(), before)
    }
    const mobile = { country: 'USA', period_days: 30, carrier_id: null }
    const rented = await buyer.post(orders, addresses(1, { carrier_id: null }), key('unset target'))
    assert.equal(rented.status, 201, rented.text)
    const product = { product_id: 'mobile-dedicated', quantity: 1, fulfillment_meta: mobile }
    const { carrier_id: _, ...less } = mobile
    const one = await buyer.post(orders, product, key('unset carrier'))
    const two = await buyer.post(orders, { ...product, fulfillment_meta: less }, key('unset carrier'))
    assert.deepEqual([one.status, two.status, two.body.orderId], [201, 200, one.body.orderId], one.text)
  })

  await t.test('a hundred simultaneous requests with one key create one order', async () => {
    const before = await balance()
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => buyer.post(orders, plan(1), key('at-once'))),
    )
    assert.equal(new Set(answers.map(({ body }) => body.orderId)).size, 1)
    assert.equal(answers.filter(({ status }) => status === 201).length, 1)
    assert.equal(await balance(), before - answers[0]!.body.amountCents)
  })

  await t.test(
    'a key that was used with a different request is refused, for any kind of request',
    async () => {
      await refused(plan(2), 409, 'idempotency_conflict', /different request/, 'retry')
      await refused({ product_id: 'nothing', quantity: 1 }, 409, 'idempotency_conflict', /different/, 'retry')
      await refused(
        { product_id: 'isp-static', quantity: 'x' },
        409,
        'idempotency_conflict',
        /different/,
        'retry',
      )
    },
  )

  await t.test(
    'a key that was used for another resource is refused, even if product and body are the same',
    async () => {
      const bought = await buyer.post(orders, plan(2), key('bought'))
      assert.equal(bought.status, 201, bought.text)
      const other = await buyer.post(orders, { product_id: 'residential-basic', quantity: 2 }, key('other'))
      assert.equal(other.status, 201, other.text)
      const topUpOf = ({ body }: typeof bought) => `/api/v1/plans/${body.planId}/topup`
      const topped = await buyer.post(topUpOf(bought), { quantity: 2 }, key('topped'))
      assert.equal(topped.status, 201, topped.text)
      const before = await balance()
      for (const [path, json, name] of [
        [topUpOf(bought), { quantity: 2 }, 'bought'],
        [orders, plan(2), 'topped'],
        [topUpOf(other), { quantity: 2 }, 'topped'],
        [topUpOf(other), { quantity: 2 }, 'bought'],
      ] as const) {
        const answer = await buyer.post(path, json, key(name))
        assert.deepEqual([answer.status, answer.body.code], [409, 'idempotency_conflict'], answer.text)
      }
      assert.equal(await balance(), before)
      for (const [path, json, { body }, name] of [
        [orders, plan(2), bought, 'bought'],
        [topUpOf(bought), { quantity: 2 }, topped, 'topped'],
      ] as const) {
        const again = await buyer.post(path, json, key(name))
        assert.deepEqual([again.status, again.body.orderId], [200, body.orderId])
      }
    },
  )

  await t.test('without a key the server generates one and returns it', async () => {
    const { headers, body } = await buyer.post(orders, plan(1))
    const made = headers.get('idempotency-key') ?? ''
    const again = await buyer.post(orders, plan(1), key(made))
    assert.deepEqual([again.status, again.body.orderId], [200, body.orderId])
  })

  await t.test('a wrong body is refused before anything is charged', async () => {
    await refused({ quantity: 1 }, 400, 'missing_product', /product_id/)
    await refused({ product_id: null, quantity: 1 }, 400, 'missing_product', /product_id/)
    await refused({ product_id: 5, quantity: 1 }, 400, 'invalid_body', /product_id/)
    await refused(
      { product_id: 'residential-premium', quantity: 1, method: 5 },
      400,
      'invalid_body',
      /^method must be one of wallet, card, .*; expected shape: /,
    )
    await refused({ product_id: 'nothing', quantity: 1 }, 400, 'unknown_product', /GET \/api\/v1\/products/)
    for (const quantity of [undefined, null, 0, -1, 1.5, '3', 1e21, 10_001])
      await refused({ product_id: 'residential-premium', quantity }, 400, 'invalid_quantity', /whole/i)
    const body = await refused({ ...plan(1), country: 'USA' }, 400, 'unknown_field', /country/)
    for (const field of ['product_id', 'quantity', 'fulfillment_meta', 'method', 'expected_amount_cents'])
      assert.match(body.error, new RegExp(field))
    await refused({ ...plan(1), fulfillment_meta: { country: 'USA' } }, 400, 'invalid_targeting', /country/)
    await refused(addresses(1, { country: 'XXX' }), 400, 'invalid_country', /USA/)
    await refused(addresses(1, { period_days: 31 }), 400, 'invalid_period', /30/)
    await refused(addresses(1, { city: 'Dallas' }), 400, 'invalid_targeting', /country, period_days/)
    await refused({ product_id: 'isp-static', quantity: 1 }, 400, 'invalid_country', /alpha-3/)
    await refused({ ...plan(1), method: 'shells' }, 400, 'unsupported_method', /wallet.*grabpay_ph/s)
    await refused(
      { ...plan(1), method: 'pix' },
      403,
      'deposits_not_available',
      /"pix".*must be one of wallet, card, crypto, alipay, wechat$/,
    )
  })

  await t.test(
    'a parked product is refused until it is active again, a retired one names its successor',
    async () => {
      await refused({ product_id: 'isp-gateway', quantity: 50 }, 409, 'product_unavailable', /parked/)
      const body = await refused(
        { product_id: 'residential', quantity: 5 },
        409,
        'product_unavailable',
        /retired/,
      )
      assert.equal(body.successorId, 'residential-basic')
    },
  )

  await t.test('a price that differs from the expected one is refused with the current figures', async () => {
    const body = await refused({ ...plan(5), expected_amount_cents: 1 }, 409, 'price_changed', /cents/)
    const quote = await buyer.get('/api/v1/products/residential-premium/price?quantity=5')
    assert.deepEqual(
      [body.amountCents, body.unitPriceCents, body.quantity],
      [quote.body.amountCents, quote.body.unitPriceCents, 5],
    )
  })

  await t.test('an order for more addresses than are free is refused and gets none', async () => {
    const { body } = await buyer.get('/api/v1/products/isp-static')
    const before = (await buyer.get('/api/v1/proxies')).body.total
    await refused(addresses(body.maxQuantity), 409, 'out_of_stock', /options/)
    assert.equal((await buyer.get('/api/v1/proxies')).body.total, before)
  })

  await t.test('a short wallet is refused with the missing amount, and the key stays free', async () => {
    const scraping = await scraper.post(orders, plan(1), key('scraper'))
    assert.deepEqual([scraping.status, scraping.body.code], [403, 'missing_scope'])
    const cents = await balance()
    const { body: product } = await buyer.get('/api/v1/products/residential-premium')
    const dear = await refused(plan(product.maxQuantity), 402, 'insufficient_balance', /short/, 'later')
    assert.deepEqual([dear.balanceCents, dear.shortfallCents], [cents, dear.amountCents - cents])
    assert.equal((await buyer.post(orders, plan(1), key('later'))).status, 201)
  })

  await t.test('only reseller keys can name a customer, who has no credit before a deposit', async () => {
    const named = (name: string) => ({
      headers: { 'Idempotency-Key': name, 'X-Reseller-Customer-Id': 'c-1' },
    })
    const ordinary = await buyer.post(orders, plan(1), named('customer'))
    assert.deepEqual([ordinary.status, ordinary.body.code], [403, 'reseller_forbidden'])
    const short = await reseller.post(orders, plan(1), named('customer'))
    assert.deepEqual([short.status, short.body.code], [402, 'customer_credit_insufficient'])
    assert.ok(short.body.shortfallCents > 0)
    const keyless = await reseller.post(orders, plan(1))
    assert.deepEqual([keyless.status, keyless.body.code], [400, 'idempotency_key_required'])
    const own = await reseller.post(orders, plan(1), key('own'))
    assert.deepEqual(
      [own.status, own.body.yourCostCents, own.body.ownPurchase],
      [201, own.body.amountCents, true],
    )
  })

  await t.test("another account's order, plan and addresses are not found", async () => {
    const [order] = (await buyer.get(orders)).body.orders
    const [held] = (await buyer.get('/api/v1/plans')).body.plans
    const [proxy] = (await buyer.get('/api/v1/proxies')).body.proxies
    const foreign = [
      await reseller.get(`${orders}/${order.orderId}`),
      await reseller.get(`/api/v1/plans/${held.planId}`),
      await reseller.call('PATCH', `/api/v1/plans/${held.planId}`, { json: { label: 'x' } }),
      await reseller.call('PATCH', `/api/v1/proxies/${proxy.proxyId}`, { json: { label: 'x' } }),
      await reseller.post(
        '/api/v1/proxies/extend',
        { proxy_ids: [proxy.proxyId], period_days: 30 },
        key('ext'),
      ),
      await reseller.post('/api/v1/proxies/extend', { order_id: order.orderId, period_days: 30 }, key('ext')),
    ]
    for (const answer of foreign) assert.deepEqual([answer.status, answer.body.code], [404, 'not_found'])
  })

  await t.test('labels are stored, and an empty label removes one', async () => {
    const [held] = (await buyer.get('/api/v1/plans')).body.plans
    const path = `/api/v1/plans/${held.planId}`
    assert.equal(
      (await buyer.call('PATCH', path, { json: { label: 'Grüße 客户' } })).body.label,
      'Grüße 客户',
    )
    assert.equal((await buyer.get(path)).body.label, 'Grüße 客户')
    assert.equal((await buyer.call('PATCH', path, { json: { label: '' } })).body.label, '')
    const [proxy] = (await buyer.get('/api/v1/proxies')).body.proxies
    const labelled = await buyer.call('PATCH', `/api/v1/proxies/${proxy.proxyId}`, {
      json: { label: 'acme' },
    })
    assert.equal(labelled.body.label, 'acme')
    const long = await buyer.call('PATCH', path, { json: { label: 'x'.repeat(65) } })
    assert.deepEqual([long.status, long.body.code], [400, 'invalid_body'])
  })

  await t.test('rentals are extended from their own end, once per key, and only the named ones', async () => {
    const { body: order } = await buyer.post(orders, addresses(2), key('ext-order'))
    const [extended, left] = order.proxyIds
    const proxyOf = async (id: string) =>
      (await buyer.get(`/api/v1/proxies?order_id=${order.orderId}`)).body.proxies.find(
        ({ proxyId }: { proxyId: string }) => proxyId === id,
      )
    const before = await proxyOf(extended)
    const extend = () =>
      buyer.post('/api/v1/proxies/extend', { proxy_ids: [extended], period_days: 30 }, key('ext-1'))
    const first = await extend()
    assert.deepEqual([first.status, first.body.kind, first.body.quantity], [201, 'extension', 1], first.text)
    assert.equal((await extend()).status, 200)
    const days = (from: string, to: string) => (Date.parse(to) - Date.parse(from)) / 86_400_000
    assert.equal(days(before.expiresAt, (await proxyOf(extended)).expiresAt), 30)
    assert.equal((await proxyOf(left)).expiresAt, before.expiresAt)
    const both = { proxy_ids: [extended], order_id: order.orderId, period_days: 30 }
    assert.equal((await buyer.post('/api/v1/proxies/extend', both, key('ext-2'))).body.code, 'invalid_body')
    const odd = await buyer.post(
      '/api/v1/proxies/extend',
      { proxy_ids: [extended], period_days: 31 },
      key('ext-3'),
    )
    assert.deepEqual([odd.status, odd.body.code], [400, 'invalid_period'])
  })

  await t.test('a rental is extended up to ten years ahead, and beyond that nothing is charged', async () => {
    const { body: order } = await buyer.post(orders, addresses(1, { period_days: 365 }), key('decade'))
    const path = `/api/v1/proxies?order_id=${order.orderId}`
    const extend = (year: number) =>
      buyer.post('/api/v1/proxies/extend', { order_id: order.orderId, period_days: 365 }, key(`year ${year}`))
    for (let year = 2; year <= 9; year += 1) assert.equal((await extend(year)).status, 201)
    // Sent at once, so that each is prepared before any is placed.
    const answers = await Promise.all([10, 10.1, 10.2, 10.3].map(extend))
    assert.deepEqual(answers.map(({ status, body }) => body.code ?? status).sort(), [
      201,
      'invalid_period',
      'invalid_period',
      'invalid_period',
    ])
    const before = [await balance(), (await buyer.get(path)).body]
    const further = await extend(11)
    assert.deepEqual([further.status, further.body.code], [400, 'invalid_period'], further.text)
    assert.match(further.body.error, /ten years/)
    const last = [10, 10.1, 10.2, 10.3][answers.findIndex(({ status }) => status === 201)]!
    assert.equal((await extend(last)).status, 200, 'the last one is still answered')
    assert.deepEqual([await balance(), (await buyer.get(path)).body], before)
  })

  await t.test(
    'an instant outside the possible ends of rentals is treated as the first or last possible one',
    async () => {
      const before = async (instant: string) => {
        const path = `/api/v1/proxies?expires_before=${encodeURIComponent(instant)}`
        const answers = [await buyer.get(path), await buyer.get(`${path}&format=txt&limit=1`)]
        for (const { status, text } of answers) assert.equal(status, 200, text)
        return { total: answers[0]!.body.total, link: answers[1]!.headers.get('link') }
      }
      const { total } = (await buyer.get('/api/v1/proxies')).body
      const last = await before('9999-12-31T23:59:59-05:00')
      assert.equal(last.total, total)
      assert.match(last.link ?? '', /expires_before=9999-/)
      assert.equal((await before('0000-01-01')).total, 0)
    },
  )

  await t.test('lists are paged newest first, with totals, and filtered by status', async () => {
    const all = (await buyer.get(`${orders}?limit=100`)).body
    assert.equal(all.orders.length, all.total)
    const times = all.orders.map(({ createdAt }: { createdAt: string }) => createdAt)
    assert.deepEqual(times, [...times].sort().reverse())
    const page = (await buyer.get(`${orders}?limit=2&offset=1`)).body
    assert.deepEqual(page.orders, all.orders.slice(1, 3))
    assert.equal((await buyer.get(`${orders}?status=completed`)).body.total, all.total)
    assert.equal((await buyer.get(`${orders}?status=failed`)).body.total, 0)
    assert.equal((await buyer.get(`${orders}?limit=1000`)).body.limit, 100)
    assert.equal((await buyer.get(`${orders}?limit=x`)).body.code, 'invalid_limit')
    assert.equal((await buyer.get(`${orders}?offset=-1`)).body.code, 'invalid_offset')
    assert.equal((await buyer.get(`${orders}?status=gone`)).body.code, 'invalid_parameter')
    for (const path of [
      '/api/v1/proxies?status=active',
      '/api/v1/proxies?status=expired',
      '/api/v1/plans?status=depleted',
    ])
      assert.equal((await buyer.get(path)).status, 200)
    for (const country of ['us', 'USAX']) {
      const { body } = await buyer.get(`/api/v1/proxies?country=${country}`)
      assert.deepEqual(
        [body.code, body.error],
        ['invalid_country', 'country must be an alpha-3 country code such as USA'],
      )
    }
  })

  await t.test('a blocked account can read everything and order nothing', async () => {
    const { accounts } = app
    const { accountId } = app.demo.reseller
    await accounts.block(accountId as AccountId, 'chargebacks', operator)
    await until(async () => (await reseller.post(orders, plan(1), key('blocked'))).status === 403, {
      what: 'the block to act',
    })
    const { body } = await reseller.post(orders, plan(1), key('blocked'))
    assert.equal(body.code, 'account_blocked')
    assert.equal((await reseller.get(orders)).status, 200)
    await accounts.unblock(accountId as AccountId, operator)
  })

  await t.test('the completion reactor does not change a complete order', async () => {
    const [order] = (await buyer.get(orders)).body.orders
    const head = await app.core.log.head()
    const completed = await createCompletion(app.core)(order.orderId, null)
    assert.deepEqual([completed?.order.status, completed?.position], ['completed', null])
    assert.equal(await app.core.log.head(), head)
  })

  assert.equal((await (await httpClientOf(baseUrl, 'fbx_unknown')).get('/api/v1/me')).status, 401)
})
