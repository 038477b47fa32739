import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, type TestContext, test } from 'node:test'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import type { KeyId } from '../../../src/kernel/ids.ts'
import { type Customer, done } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { dayMs, path, subscriptionsOf } from './subscriptions.ts'

const premium = { product_id: 'residential-premium', quantity: 2, interval: 'month' }
/** 2 GB at $5.50. */
const price = 1100
const isp = {
  product_id: 'isp-static',
  quantity: 2,
  interval: 'month',
  fulfillment_meta: { country: 'USA', period_days: 30 },
}
const ispPrice = 560
const retryMs = 15 * 60_000

/** The service, whose products are for sale, and what refuses renewals. */
const openApp = async (t: TestContext) => {
  const app = await testApp(t, { own: 'file' })
  const { core } = app
  const subs = subscriptionsOf(app)
  const catalog = createCatalogService(core.runner)
  // An earlier test parked or retired it.
  const sold = { productId: premium.product_id, state: 'active', successorId: null } as const
  const active = await catalog.setState(sold, operator)
  assert.equal(active.outcome, 'done')
  const order = { product_id: premium.product_id, quantity: 1 }
  await until(async () => (await app.buyer.post('/api/v1/orders', order)).status === 201)
  const sub = (who: Customer, id: string) => ({
    read: () => subs.read(who, id),
    is: (status: string) => subs.becomes(who, id, (one) => one.status === status, `to be ${status}`),
    /** Waits until a renewal was refused for this reason and is to be tried again. */
    waits: (reason: string) =>
      until(
        async () => {
          const { rows } = await core.pool.query(
            'select reason from work.renewals where subscription_id = $1::text',
            [id],
          )
          return rows[0]?.reason === reason
        },
        { timeoutMs: 20_000, what: `a renewal that waits: ${reason}` },
      ),
  })
  return {
    ...app,
    ...subs,
    catalog,
    setState: async (productId: string, state: 'active' | 'parked' | 'retired') => {
      const successorId = state === 'retired' ? 'residential-basic' : null
      const result = await catalog.setState({ productId, state, successorId }, operator)
      assert.ok(result.outcome === 'done' && result.changed)
      await app.caughtUp()
    },
    subscribe: async (who: Customer, body: object, key?: string) => {
      const started = await subs.start(who, body, key)
      return { ...started, ...sub(who, started.subscriptionId) }
    },
  }
}

describe('a renewal', () => {
  test('of a parked product waits until it is active, and ends the subscription otherwise', async (t) => {
    const app = await openApp(t)
    const who = await app.customer({ cents: 9 * price })
    const one = await app.subscribe(who, premium, 'one')
    await app.setState('residential-premium', 'parked')
    app.waitUntil(one.currentPeriodEnd)
    await one.waits('product_unavailable')
    const late = await one.read()
    assert.deepEqual([late.status, late.reason], ['past_due', 'product_unavailable'])
    assert.deepEqual((await app.list(who, '?status=past_due')).subscriptions, [late])
    assert.deepEqual(await app.start(who, premium, 'one'), late, 'a retry tells it too')
    await app.setState('residential-premium', 'active')
    app.wait(retryMs)
    const renewed = await one.is('active')
    assert.equal(renewed.currentPeriodStart, one.currentPeriodEnd, 'the wait shifts nothing')
    assert.equal(renewed.reason, null)
    assert.equal(await app.balance(who.key), 7 * price)

    await app.setState('residential-premium', 'parked')
    app.waitUntil(renewed.currentPeriodEnd)
    await one.waits('product_unavailable')
    app.wait(3 * dayMs)
    assert.equal((await one.is('expired')).reason, 'product_unavailable')
    assert.equal(await app.balance(who.key), 7 * price)
    const plan = (await app.client.get(`/api/v1/plans/${one.planId}`, { key: who.key })).body
    assert.equal(plan.dataGbTotal, 4, 'what was paid stays usable')
  })

  test('of a retired product ends the subscription; its successor is not bought automatically', async (t) => {
    const app = await openApp(t)
    const who = await app.customer({ cents: 9 * price })
    const one = await app.subscribe(who, premium)
    await app.setState('residential-premium', 'retired')
    app.waitUntil(one.currentPeriodEnd)
    await one.waits('product_unavailable')
    app.wait(3 * dayMs)
    assert.equal((await one.is('expired')).reason, 'product_unavailable')
    assert.deepEqual([await app.balance(who.key), (await app.orders(who)).length], [8 * price, 1])
  })

  test('over the cap of its key waits for the next day, and counts against the cap', async (t) => {
    const app = await openApp(t)
    const owner = await app.customer({ cents: 20 * price })
    const who = { ...owner, key: await app.issueKey(owner.accountId, 2 * price) }
    const one = await app.subscribe(who, premium)
    app.waitUntil(one.currentPeriodEnd)
    app.wait(-60_000)
    const buy = (quantity: number) =>
      app.client.post('/api/v1/orders', { product_id: 'residential-premium', quantity }, { key: who.key })
    await done(buy(3))
    app.wait(60_000)
    await one.waits('spend_cap_reached')
    app.wait(dayMs + 2 * 60_000)
    await one.is('active')
    assert.equal((await done(buy(2))).status, 201)
    assert.equal((await buy(1)).body.code, 'spend_cap_reached', 'the renewal is part of the day')

    const { keys } = await app.accounts.read(owner.accountId, operator).then((account) => account!)
    const [keyId] = [...keys].find(([, key]) => key.dailyCapCents === 2 * price)!
    await app.accounts.capKey(keyId as KeyId, { cents: price - 1 }, operator)
    const { currentPeriodEnd } = await one.read()
    const before = await app.balance(who.key)
    app.waitUntil(currentPeriodEnd)
    await one.waits('spend_cap_reached')
    app.wait(3 * dayMs)
    assert.equal((await one.is('expired')).reason, 'spend_cap_reached')
    assert.equal(await app.balance(who.key), before)
  })

  test('continues after the key that created it was revoked', async (t) => {
    const app = await openApp(t)
    const who = await app.customer({ cents: 9 * price })
    const second = await app.issueKey(who.accountId)
    const one = await app.subscribe(who, premium)
    const { keys } = (await app.accounts.read(who.accountId, operator))!
    for (const [keyId] of [...keys].slice(0, 1)) await app.accounts.revokeKey(keyId as KeyId, operator)
    app.waitUntil(one.currentPeriodEnd)
    const owner = { ...who, key: second }
    await app.becomes(
      owner,
      one.subscriptionId,
      ({ currentPeriodStart }) => currentPeriodStart === one.currentPeriodEnd,
      'the renewal',
    )
  })

  test('of a blocked account is not charged; it is paid when the block ends within the grace period', async (t) => {
    const app = await openApp(t)
    const [back, away] = [await app.customer({ cents: 9 * price }), await app.customer({ cents: 9 * price })]
    const [one, two] = [await app.subscribe(back, premium), await app.subscribe(away, premium)]
    for (const { accountId } of [back, away]) await app.accounts.block(accountId, 'chargebacks', operator)
    app.waitUntil(two.currentPeriodEnd)
    await one.waits('account_blocked')
    await two.waits('account_blocked')
    await app.accounts.unblock(back.accountId, operator)
    app.wait(2 * dayMs)
    await one.is('active')
    app.wait(dayMs)
    assert.equal((await two.is('expired')).reason, 'account_blocked')
    assert.deepEqual([await app.balance(back.key), await app.balance(away.key)], [7 * price, 8 * price])
  })

  test('of addresses that ended unpaid is refused while all others are sold out', async (t) => {
    const app = await openApp(t)
    const who = await app.customer({ cents: ispPrice })
    const rich = await app.customer({ cents: 1_000_000 })
    const one = await app.subscribe(who, isp)
    const buy = (quantity: number) =>
      app.client.post(
        '/api/v1/orders',
        { product_id: 'isp-static', quantity, fulfillment_meta: { country: 'USA', period_days: 90 } },
        { key: rich.key },
      )
    await done(buy(58))
    app.waitUntil(one.currentPeriodEnd)
    app.wait(-60 * 60_000)
    await one.waits('insufficient_balance')
    app.wait(60 * 60_000)
    // Released addresses rest for a quarter of an hour, and then another order gets them.
    await until(
      async () => {
        app.wait(15 * 60_000)
        return (await buy(2)).status === 201
      },
      { timeoutMs: 20_000, everyMs: 500, what: 'the last two addresses' },
    )
    await app.credit(who.accountId, ispPrice)
    await one.waits('out_of_stock')
    assert.equal(await app.balance(who.key), ispPrice)
    app.wait(3 * dayMs)
    assert.equal((await one.is('expired')).reason, 'out_of_stock')
    assert.equal(await app.balance(who.key), ispPrice)
  })

  test('that is past due ends at once when it is canceled, and is never charged again', async (t) => {
    const app = await openApp(t)
    const who = await app.customer({ cents: price })
    const one = await app.subscribe(who, premium)
    app.waitUntil(one.currentPeriodEnd)
    await one.waits('insufficient_balance')
    const canceled = await done(app.client.call('DELETE', `${path}/${one.subscriptionId}`, { key: who.key }))
    assert.deepEqual([canceled.body.status, canceled.body.reason], ['canceled', 'requested'])
    await app.credit(who.accountId, 5 * price)
    app.wait(dayMs)
    await app.caughtUp()
    assert.equal(await app.balance(who.key), 5 * price)
  })

  // The last one: the catalogue stays.
  test('continues for a product closed to new subscriptions, as long as it is sold', async (t) => {
    const app = await openApp(t)
    const [who, poor] = [await app.customer({ cents: 100_000 }), await app.customer({ cents: 0 })]
    const traffic = await app.subscribe(who, premium)
    const timed = await app.subscribe(who, {
      product_id: 'residential-unlimited',
      quantity: 1,
      interval: 'month',
    })
    const file = JSON.parse(
      readFileSync(new URL('../../../src/app/demo/catalog.json', import.meta.url), 'utf8'),
    )
    for (const product of file.products) {
      if (product.id === 'residential-premium')
        product.billing = { payg: true, subscription: false, intervals: [] }
      if (product.id === 'residential-unlimited') product.periodDays = 7
    }
    const imported = await app.catalog.import(JSON.stringify(file), operator)
    assert.ok(imported.outcome === 'done' && imported.changed)
    await app.caughtUp()
    await until(
      async () => {
        const { body } = await app.client.post(path, premium, { key: poor.key })
        return body.code === 'subscription_not_available'
      },
      { what: 'the new catalogue' },
    )
    app.waitUntil(traffic.currentPeriodEnd)
    await app.becomes(
      who,
      traffic.subscriptionId,
      ({ currentPeriodStart }) => currentPeriodStart === traffic.currentPeriodEnd,
      'the renewal',
    )
    // A plan of seven days would be paid for thirty.
    app.wait(dayMs)
    await timed.waits('subscription_not_available')
    app.wait(3 * dayMs)
    assert.equal((await timed.is('expired')).reason, 'subscription_not_available')
  })
})
