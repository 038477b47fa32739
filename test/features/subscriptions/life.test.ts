import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Customer } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { dayMs, path, subscriptionsOf } from './subscriptions.ts'

const premium = { product_id: 'residential-premium', quantity: 2, interval: 'month' }
const isp = {
  product_id: 'isp-static',
  quantity: 2,
  interval: 'month',
  fulfillment_meta: { country: 'USA', period_days: 30 },
}
/** 2 GB at $5.50. */
const price = 1100

/** It is past due only after a refused attempt, and then it states the reason. */
const isPastDue = ({ status, reason, graceEndsAt }: Record<string, unknown>): boolean => {
  const pastDue = status === 'past_due'
  assert.deepEqual([reason === null, graceEndsAt === null], [!pastDue, !pastDue], `${status}: ${reason}`)
  return pastDue
}

describe('a subscription', () => {
  test('charges its first period at once, and a retry returns the same one', async (t) => {
    const app = await testApp(t)
    const { client } = app
    const who = await app.customer({ cents: 5_000 })
    const headers = { 'Idempotency-Key': 'mine' }
    const first = await client.post(
      path,
      { ...premium, expected_amount_cents: price },
      { key: who.key, headers },
    )
    assert.equal(first.status, 201, first.text)
    const { subscriptionId, orderId, planId, startedAt, currentPeriodEnd } = first.body
    assert.match(subscriptionId, /^sub_[0-9a-f]{32}$/)
    assert.deepEqual(
      [first.body.status, first.body.amountCents, first.body.cancelAtPeriodEnd, first.body.graceEndsAt],
      ['active', price, false, null],
    )
    const month = new Date(startedAt)
    assert.equal(new Date(currentPeriodEnd).getUTCMonth(), (month.getUTCMonth() + 1) % 12)
    assert.equal(await app.balance(who.key), 5_000 - price)
    const order = (await client.get(`/api/v1/orders/${orderId}`, { key: who.key })).body
    assert.deepEqual([order.status, order.planId, order.amountCents], ['completed', planId, price])

    const again = await client.post(path, { ...premium, expected_amount_cents: 1 }, { key: who.key, headers })
    assert.equal(again.status, 200)
    assert.equal(again.headers.get('idempotency-replayed'), 'true')
    const position = first.headers.get('x-farebox-position')
    assert.match(position ?? '', /^pos_0_[1-9]\d*$/)
    assert.equal(again.headers.get('x-farebox-position'), position)
    assert.deepEqual(again.body, first.body)
    const other = await client.post(path, { ...premium, quantity: 3 }, { key: who.key, headers })
    assert.equal(other.body.code, 'idempotency_conflict')
    assert.equal(await app.balance(who.key), 5_000 - price)

    // The keys of orders are apart.
    const bought = await client.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 1 },
      { key: who.key, headers },
    )
    assert.equal(bought.status, 201)
    const unnamed = await client.post(path, premium, { key: who.key })
    assert.equal(unnamed.status, 201)
    assert.match(unnamed.headers.get('idempotency-key') ?? '', /^auto_/)

    const list = (await client.get(path, { key: who.key })).body
    assert.deepEqual(
      list.subscriptions.map((one: { subscriptionId: string }) => one.subscriptionId),
      [unnamed.body.subscriptionId, subscriptionId],
    )
    assert.equal(list.total, 2)
    const outsider = await app.customer({ cents: 0 })
    assert.equal((await client.get(`${path}/${subscriptionId}`, { key: outsider.key })).status, 404)
    assert.equal(
      (await client.call('DELETE', `${path}/${subscriptionId}`, { key: outsider.key })).status,
      404,
    )
    assert.equal((await client.get(path, { key: outsider.key })).body.total, 0)
  })

  test('renews once a month from the wallet for a year, on its plan', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const who = await app.customer({ cents: 13 * price })
    const { subscriptionId, planId, startedAt } = await subs.start(who, premium)
    let { currentPeriodEnd } = await subs.read(who, subscriptionId)
    for (let month = 2; month <= 4; month += 1) {
      app.waitUntil(currentPeriodEnd)
      const before = currentPeriodEnd
      const record = await subs.becomes(
        who,
        subscriptionId,
        (one) => one.currentPeriodEnd !== before,
        'a renewal',
      )
      assert.equal(record.currentPeriodStart, before)
      assert.equal(record.status, 'active')
      assert.equal(record.planId, planId)
      currentPeriodEnd = record.currentPeriodEnd
      assert.equal(await app.balance(who.key), (13 - month) * price)
    }
    // A service after a long outage catches up: each period was due, and the wallet can pay it.
    app.waitUntil(new Date(Date.parse(startedAt) + 366 * dayMs).toISOString())
    currentPeriodEnd = (
      await subs.becomes(
        who,
        subscriptionId,
        ({ currentPeriodEnd: end }) => Date.parse(end as string) > app.core.clock(),
        'the other months',
      )
    ).currentPeriodEnd
    assert.equal(await app.balance(who.key), 0)
    const [start, end] = [new Date(startedAt), new Date(currentPeriodEnd)]
    assert.equal(
      end.getUTCFullYear() * 12 + end.getUTCMonth() - start.getUTCFullYear() * 12 - start.getUTCMonth(),
      13,
    )
    const orders = await subs.orders(who)
    assert.equal(orders.length, 13)
    const plan = (await app.client.get(`/api/v1/plans/${planId}`, { key: who.key })).body
    assert.equal(plan.dataGbTotal, 26)
  })

  test('is past due while the wallet is short, renews after a credit, and expires after three days', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const who = await app.customer({ cents: price })
    const { subscriptionId, currentPeriodEnd } = await subs.start(who, premium)
    app.waitUntil(currentPeriodEnd)
    app.wait(1)
    const late = await subs.becomes(who, subscriptionId, isPastDue, 'the refused renewal')
    assert.equal(late.reason, 'insufficient_balance')
    assert.deepEqual(
      [late.status, Date.parse(late.graceEndsAt) - Date.parse(currentPeriodEnd)],
      ['past_due', 3 * dayMs],
    )
    app.wait(2 * dayMs)
    await app.credit(who.accountId, price - 1)
    assert.equal((await subs.read(who, subscriptionId)).status, 'past_due')
    await app.credit(who.accountId, 1)
    const renewed = await subs.becomes(
      who,
      subscriptionId,
      ({ status }) => status === 'active',
      'the late renewal',
    )
    assert.equal(renewed.currentPeriodStart, currentPeriodEnd, 'a late payment shifts nothing')
    assert.equal(await app.balance(who.key), 0)

    app.waitUntil(renewed.currentPeriodEnd)
    app.wait(3 * dayMs - 60_000)
    await subs.becomes(who, subscriptionId, isPastDue, 'another refused renewal')
    app.wait(60_001)
    const over = await subs.becomes(who, subscriptionId, ({ status }) => status === 'expired', 'the end')
    assert.deepEqual([over.reason, over.graceEndsAt], ['insufficient_balance', null])
    await app.credit(who.accountId, 10 * price)
    app.wait(40 * dayMs)
    await app.caughtUp()
    assert.equal((await subs.read(who, subscriptionId)).status, 'expired')
    const types = (await subs.eventsOf(subscriptionId)).map(({ type }) => type)
    assert.deepEqual(types, ['SubscriptionStarted', 'SubscriptionRenewed', 'SubscriptionExpired'])
    assert.equal(await app.balance(who.key), 10 * price)
    for (const [status, total] of [
      ['expired', 1],
      ['active', 0],
      ['past_due', 0],
      ['canceled', 0],
    ] as const)
      assert.equal((await app.client.get(`${path}?status=${status}`, { key: who.key })).body.total, total)
  })

  test('is canceled at the end of the paid period', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const who = await app.customer({ cents: 9 * price })
    const { subscriptionId, currentPeriodEnd } = await subs.start(who, premium)
    const cancel = async () => {
      const { status, body, text } = await app.client.call('DELETE', `${path}/${subscriptionId}`, {
        key: who.key,
      })
      assert.equal(status, 200, text)
      return body
    }
    for (const body of [await cancel(), await cancel()])
      assert.deepEqual(
        [body.status, body.cancelAtPeriodEnd, body.currentPeriodEnd],
        ['active', true, currentPeriodEnd],
      )
    app.waitUntil(currentPeriodEnd)
    const over = await subs.becomes(who, subscriptionId, ({ status }) => status === 'canceled', 'the end')
    assert.equal(over.reason, 'requested')
    assert.equal((await cancel()).status, 'canceled')
    app.wait(90 * dayMs)
    assert.equal(await app.balance(who.key), 8 * price, 'it was charged after it was canceled')
  })

  test('of addresses keeps them if paid a day before they end; later it rents others', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const who = await app.customer({ cents: 560 * 2 })
    const one = await subs.start(who, isp)
    assert.equal(Date.parse(one.currentPeriodEnd) - Date.parse(one.startedAt), 30 * dayMs)
    const proxies = async () =>
      (await app.client.get('/api/v1/proxies?status=active', { key: who.key })).body.proxies
    const before = await proxies()
    app.waitUntil(new Date(Date.parse(one.currentPeriodEnd) - dayMs).toISOString())
    const two = await subs.becomes(
      who,
      one.subscriptionId,
      ({ currentPeriodStart }) => currentPeriodStart === one.currentPeriodEnd,
      'the renewal',
    )
    assert.deepEqual([...two.proxyIds].sort(), [...one.proxyIds].sort())
    const running = [
      ...(await proxies()),
      ...(await app.client.get('/api/v1/proxies?status=expiring', { key: who.key })).body.proxies,
    ]
    assert.deepEqual(
      new Set(running.map(({ ip }: { ip: string }) => ip)),
      new Set(before.map(({ ip }: { ip: string }) => ip)),
    )
    assert.ok(running.every(({ expiresAt }: { expiresAt: string }) => expiresAt === two.currentPeriodEnd))
    const [order] = await subs.orders(who)
    assert.deepEqual([order.kind, order.amountCents], ['extension', 560])

    app.waitUntil(two.currentPeriodEnd)
    app.wait(dayMs)
    await subs.becomes(who, one.subscriptionId, isPastDue, 'the refused renewal')
    await app.credit(who.accountId, 560)
    const three = await subs.becomes(
      who,
      one.subscriptionId,
      ({ status }) => status === 'active',
      'the late renewal',
    )
    assert.equal(three.proxyIds.length, 2)
    assert.ok(
      three.proxyIds.every((id: string) => !one.proxyIds.includes(id)),
      'rentals that ended are gone',
    )
    assert.equal(three.currentPeriodStart, two.currentPeriodEnd)
  })

  test('of a plan sold by time opens a new plan for each period', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const who = await app.customer({ cents: 200_000 })
    const one = await subs.start(who, { product_id: 'residential-unlimited', quantity: 1, interval: 'month' })
    assert.equal(Date.parse(one.currentPeriodEnd) - Date.parse(one.startedAt), 30 * dayMs)
    app.waitUntil(one.currentPeriodEnd)
    const two = await subs.becomes(
      who,
      one.subscriptionId,
      ({ planId }) => planId !== one.planId,
      'the next plan',
    )
    const plan = (await app.client.get(`/api/v1/plans/${two.planId}`, { key: who.key })).body
    assert.equal(plan.status, 'active')
  })

  test("of a reseller costs the reseller's price, by the terms of that day", async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const { run } = app
    const who = { ...app.demo.reseller, email: '' } as Customer
    const discount = async (percent: string, costCents: number): Promise<void> => {
      await run('reseller', 'set', '--account', who.accountId, '--discount', percent)
      await until(async () => {
        const at = '/api/v1/products/residential-premium/price?quantity=2'
        return (await app.client.get(at, { key: who.key })).body.yourCostCents === costCents
      })
    }
    await discount('10', 990)
    const before = await app.balance(who.key)
    const one = await subs.start(who, premium)
    assert.deepEqual([one.amountCents, await app.balance(who.key)], [990, before - 990])
    await discount('20', 880)
    app.waitUntil(one.currentPeriodEnd)
    const two = await subs.renewed(who, one)
    assert.deepEqual([two.amountCents, await app.balance(who.key)], [880, before - 990 - 880])
  })

  test('is refused with a code that names the accepted values, and nothing is charged', async (t) => {
    const app = await testApp(t)
    const who = await app.customer({ cents: 50_000 })
    const poor = await app.customer({ cents: 10 })
    const { log } = app.core
    const before = await log.head()
    for (const [body, code, message, key] of [
      [{ ...premium, product_id: undefined }, 'missing_product', /product_id/],
      [{ ...premium, product_id: 'nothing' }, 'unknown_product', /product_id/],
      [{ ...premium, product_id: 'isp-gateway' }, 'product_unavailable', /parked/],
      [
        { ...premium, product_id: 'residential-basic' },
        'subscription_not_available',
        /POST \/api\/v1\/orders/,
      ],
      [
        { product_id: 'ipv6-datacenter', quantity: 10, interval: 'year' },
        'subscription_not_available',
        /accepted intervals: month/,
      ],
      [{ ...premium, interval: 'week' }, 'invalid_body', /month.*year/],
      [{ ...premium, interval: undefined }, 'invalid_body', /interval/],
      [{ ...premium, quantity: 0 }, 'invalid_quantity', /at least 1/],
      [{ ...premium, quantity: 1.5 }, 'invalid_quantity', /whole/],
      [
        { ...premium, fulfillment_meta: { country: 'USA' } },
        'invalid_targeting',
        /takes no fulfillment_meta/,
      ],
      [{ ...premium, method: 'card' }, 'unknown_field', /product_id, quantity, interval/],
      [{ ...isp, fulfillment_meta: { country: 'XXX', period_days: 30 } }, 'invalid_country', /USA/],
      [
        { ...isp, fulfillment_meta: { country: 'USA', period_days: 7 } },
        'invalid_period',
        /must be 30 .* month/,
      ],
      [
        { ...isp, fulfillment_meta: { country: 'USA' } },
        'invalid_period',
        /^fulfillment_meta\.period_days must be 30 in a subscription by the month$/,
      ],
      [
        { ...isp, interval: 'year', fulfillment_meta: { country: 'USA', period_days: 31 } },
        'invalid_period',
        /^fulfillment_meta\.period_days must be 365 in a subscription by the year$/,
      ],
      [{ ...isp, interval: 'year' }, 'invalid_period', /must be 365 .* year/],
      [{ ...isp, quantity: 400 }, 'out_of_stock', /addresses are free for this order, fewer/],
      [{ ...premium, expected_amount_cents: 1 }, 'price_changed', /1100/],
      [premium, 'insufficient_balance', /short/, poor.key],
    ] as const) {
      const refused = await app.client.post(path, body, { key: key ?? who.key })
      assert.equal(refused.body.code, code, refused.text)
      assert.match(refused.body.error, message)
    }
    // Money and orders are untouched, and so is every subscription.
    const written = (await log.readAll(before, 1000)).filter(({ stream }) => !stream.startsWith('account-'))
    assert.deepEqual(
      written.map(({ type }) => type),
      [],
    )
    const reseller = await app.client.post(path, premium, { key: app.demo.reseller.key })
    assert.equal(reseller.body.code, 'idempotency_key_required')
  })

  // The last one on the service of the file: the price stays.
  test("costs the product's price at its renewal", async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const { readFileSync } = await import('node:fs')
    const { createCatalogService } = await import('../../../src/features/catalog/import-catalog.ts')
    const who = await app.customer({ cents: 9 * price })
    const one = await subs.start(who, premium)
    const file = JSON.parse(
      readFileSync(new URL('../../../src/app/demo/catalog.json', import.meta.url), 'utf8'),
    )
    const product = file.products.find(({ id }: { id: string }) => id === 'residential-premium')
    for (const tier of product.tiers) tier.unitPriceMicros *= 2
    const imported = await createCatalogService(app.core.runner).import(JSON.stringify(file), operator)
    assert.ok(imported.outcome === 'done' && imported.changed)
    await app.caughtUp()
    app.waitUntil(one.currentPeriodEnd)
    const two = await subs.renewed(who, one)
    assert.equal(two.amountCents, 2 * price)
    assert.equal(await app.balance(who.key), 9 * price - 3 * price)
  })
})
