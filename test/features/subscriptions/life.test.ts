import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { commands as resellerCommands } from '../../../src/features/resellers/commands.ts'
import { type Customer, operator } from '../../contract/stage.ts'
import { until } from '../../support/until.ts'
import { cliOf } from '../resellers/cli.ts'
import { dayMs, openYear, path } from './world.ts'

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
    const year = await openYear(t)
    const { client } = year
    const who = await year.customer({ cents: 5_000 })
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
    assert.equal(await year.balance(who.key), 5_000 - price)
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
    assert.equal(await year.balance(who.key), 5_000 - price)

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
    const outsider = await year.customer({ cents: 0 })
    assert.equal((await client.get(`${path}/${subscriptionId}`, { key: outsider.key })).status, 404)
    assert.equal(
      (await client.call('DELETE', `${path}/${subscriptionId}`, { key: outsider.key })).status,
      404,
    )
    assert.equal((await client.get(path, { key: outsider.key })).body.total, 0)
  })

  test('renews once a month from the wallet for a year, on its plan', async (t) => {
    const year = await openYear(t)
    const who = await year.customer({ cents: 13 * price })
    const { subscriptionId, planId, startedAt } = await year.start(who, premium)
    let { currentPeriodEnd } = await year.read(who, subscriptionId)
    for (let month = 2; month <= 4; month += 1) {
      year.until(currentPeriodEnd)
      const before = currentPeriodEnd
      const record = await year.becomes(
        who,
        subscriptionId,
        (one) => one.currentPeriodEnd !== before,
        'a renewal',
      )
      assert.equal(record.currentPeriodStart, before)
      assert.equal(record.status, 'active')
      assert.equal(record.planId, planId)
      currentPeriodEnd = record.currentPeriodEnd
      assert.equal(await year.balance(who.key), (13 - month) * price)
    }
    // A service after a long outage catches up: each period was due, and the wallet can pay it.
    year.until(new Date(Date.parse(startedAt) + 366 * dayMs).toISOString())
    currentPeriodEnd = (
      await year.becomes(
        who,
        subscriptionId,
        ({ currentPeriodEnd: end }) => Date.parse(end as string) > year.now(),
        'the other months',
      )
    ).currentPeriodEnd
    assert.equal(await year.balance(who.key), 0)
    const [start, end] = [new Date(startedAt), new Date(currentPeriodEnd)]
    assert.equal(
      end.getUTCFullYear() * 12 + end.getUTCMonth() - start.getUTCFullYear() * 12 - start.getUTCMonth(),
      13,
    )
    const orders = await year.orders(who)
    assert.equal(orders.length, 13)
    const plan = (await year.client.get(`/api/v1/plans/${planId}`, { key: who.key })).body
    assert.equal(plan.dataGbTotal, 26)
  })

  test('is past due while the wallet is short, renews after a credit, and expires after three days', async (t) => {
    const year = await openYear(t)
    const who = await year.customer({ cents: price })
    const { subscriptionId, currentPeriodEnd } = await year.start(who, premium)
    year.until(currentPeriodEnd)
    year.wait(1)
    const late = await year.becomes(who, subscriptionId, isPastDue, 'the refused renewal')
    assert.equal(late.reason, 'insufficient_balance')
    assert.deepEqual(
      [late.status, Date.parse(late.graceEndsAt) - Date.parse(currentPeriodEnd)],
      ['past_due', 3 * dayMs],
    )
    year.wait(2 * dayMs)
    await year.credit(who.accountId, price - 1)
    assert.equal((await year.read(who, subscriptionId)).status, 'past_due')
    await year.credit(who.accountId, 1)
    const renewed = await year.becomes(
      who,
      subscriptionId,
      ({ status }) => status === 'active',
      'the late renewal',
    )
    assert.equal(renewed.currentPeriodStart, currentPeriodEnd, 'a late payment shifts nothing')
    assert.equal(await year.balance(who.key), 0)

    year.until(renewed.currentPeriodEnd)
    year.wait(3 * dayMs - 60_000)
    await year.becomes(who, subscriptionId, isPastDue, 'another refused renewal')
    year.wait(60_001)
    const over = await year.becomes(who, subscriptionId, ({ status }) => status === 'expired', 'the end')
    assert.deepEqual([over.reason, over.graceEndsAt], ['insufficient_balance', null])
    await year.credit(who.accountId, 10 * price)
    year.wait(40 * dayMs)
    await year.caughtUp()
    assert.equal((await year.read(who, subscriptionId)).status, 'expired')
    const types = (await year.eventsOf(subscriptionId)).map(({ type }) => type)
    assert.deepEqual(types, ['SubscriptionStarted', 'SubscriptionRenewed', 'SubscriptionExpired'])
    assert.equal(await year.balance(who.key), 10 * price)
    for (const [status, total] of [
      ['expired', 1],
      ['active', 0],
      ['past_due', 0],
      ['canceled', 0],
    ] as const)
      assert.equal((await year.client.get(`${path}?status=${status}`, { key: who.key })).body.total, total)
  })

  test('is canceled at the end of the paid period', async (t) => {
    const year = await openYear(t)
    const who = await year.customer({ cents: 9 * price })
    const { subscriptionId, currentPeriodEnd } = await year.start(who, premium)
    const cancel = async () => {
      const { status, body, text } = await year.client.call('DELETE', `${path}/${subscriptionId}`, {
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
    year.until(currentPeriodEnd)
    const over = await year.becomes(who, subscriptionId, ({ status }) => status === 'canceled', 'the end')
    assert.equal(over.reason, 'requested')
    assert.equal((await cancel()).status, 'canceled')
    year.wait(90 * dayMs)
    assert.equal(await year.balance(who.key), 8 * price, 'it was charged after it was canceled')
  })

  test('of addresses keeps them if paid a day before they end; later it rents others', async (t) => {
    const year = await openYear(t)
    const who = await year.customer({ cents: 560 * 2 })
    const one = await year.start(who, isp)
    assert.equal(Date.parse(one.currentPeriodEnd) - Date.parse(one.startedAt), 30 * dayMs)
    const proxies = async () =>
      (await year.client.get('/api/v1/proxies?status=active', { key: who.key })).body.proxies
    const before = await proxies()
    year.until(one.currentPeriodEnd)
    year.wait(-dayMs)
    const two = await year.becomes(
      who,
      one.subscriptionId,
      ({ currentPeriodStart }) => currentPeriodStart === one.currentPeriodEnd,
      'the renewal',
    )
    assert.deepEqual([...two.proxyIds].sort(), [...one.proxyIds].sort())
    const running = [
      ...(await proxies()),
      ...(await year.client.get('/api/v1/proxies?status=expiring', { key: who.key })).body.proxies,
    ]
    assert.deepEqual(
      new Set(running.map(({ ip }: { ip: string }) => ip)),
      new Set(before.map(({ ip }: { ip: string }) => ip)),
    )
    assert.ok(running.every(({ expiresAt }: { expiresAt: string }) => expiresAt === two.currentPeriodEnd))
    const [order] = await year.orders(who)
    assert.deepEqual([order.kind, order.amountCents], ['extension', 560])

    year.until(two.currentPeriodEnd)
    year.wait(dayMs)
    await year.becomes(who, one.subscriptionId, isPastDue, 'the refused renewal')
    await year.credit(who.accountId, 560)
    const three = await year.becomes(
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
    const year = await openYear(t)
    const who = await year.customer({ cents: 200_000 })
    const one = await year.start(who, { product_id: 'residential-unlimited', quantity: 1, interval: 'month' })
    assert.equal(Date.parse(one.currentPeriodEnd) - Date.parse(one.startedAt), 30 * dayMs)
    year.until(one.currentPeriodEnd)
    const two = await year.becomes(
      who,
      one.subscriptionId,
      ({ planId }) => planId !== one.planId,
      'the next plan',
    )
    const plan = (await year.client.get(`/api/v1/plans/${two.planId}`, { key: who.key })).body
    assert.equal(plan.status, 'active')
  })

  test("costs the product's price at its renewal", async (t) => {
    const year = await openYear(t)
    const { readFileSync } = await import('node:fs')
    const { createCatalogService } = await import('../../../src/features/catalog/import-catalog.ts')
    const who = await year.customer({ cents: 9 * price })
    const one = await year.start(who, premium)
    const file = JSON.parse(
      readFileSync(new URL('../../../src/app/demo/catalog.json', import.meta.url), 'utf8'),
    )
    const product = file.products.find(({ id }: { id: string }) => id === 'residential-premium')
    for (const tier of product.tiers) tier.unitPriceMicros *= 2
    const imported = await createCatalogService(year.farebox.core.runner).import(
      JSON.stringify(file),
      operator,
    )
    assert.ok(imported.outcome === 'done' && imported.changed)
    await year.caughtUp()
    year.until(one.currentPeriodEnd)
    const two = await year.becomes(
      who,
      one.subscriptionId,
      ({ currentPeriodStart }) => currentPeriodStart === one.currentPeriodEnd,
      'a renewal',
    )
    assert.equal(two.amountCents, 2 * price)
    assert.equal(await year.balance(who.key), 9 * price - 3 * price)
  })

  test("of a reseller costs the reseller's price, by the terms of that day", async (t) => {
    const year = await openYear(t)
    const run = cliOf(year.farebox, resellerCommands)
    const who = { ...year.demo.reseller, email: '' } as Customer
    const discount = async (percent: string, costCents: number): Promise<void> => {
      const { code, err } = await run('reseller', 'set', '--account', who.accountId, '--discount', percent)
      assert.equal(code, 0, err)
      await until(async () => {
        const at = '/api/v1/products/residential-premium/price?quantity=2'
        return (await year.client.get(at, { key: who.key })).body.yourCostCents === costCents
      })
    }
    await discount('10', 990)
    const before = await year.balance(who.key)
    const one = await year.start(who, premium)
    assert.deepEqual([one.amountCents, await year.balance(who.key)], [990, before - 990])
    await discount('20', 880)
    year.until(one.currentPeriodEnd)
    const two = await year.becomes(
      who,
      one.subscriptionId,
      ({ currentPeriodStart }) => currentPeriodStart === one.currentPeriodEnd,
      'a renewal',
    )
    assert.deepEqual([two.amountCents, await year.balance(who.key)], [880, before - 990 - 880])
  })

  test('is refused with a code that names the accepted values, and nothing is charged', async (t) => {
    const year = await openYear(t)
    const who = await year.customer({ cents: 50_000 })
    const poor = await year.customer({ cents: 10 })
    const { log } = year.farebox.core
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
      const refused = await year.client.post(path, body, { key: key ?? who.key })
      assert.equal(refused.body.code, code, refused.text)
      assert.match(refused.body.error, message)
    }
    // Money and orders are untouched, and so is every subscription.
    const written = (await log.readAll(before, 1000)).filter(({ stream }) => !stream.startsWith('account-'))
    assert.deepEqual(
      written.map(({ type }) => type),
      [],
    )
    const reseller = await year.client.post(path, premium, { key: year.demo.reseller.key })
    assert.equal(reseller.body.code, 'idempotency_key_required')
  })
})
