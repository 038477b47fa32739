import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import type { KeyId } from '../../../src/kernel/ids.ts'
import { type Customer, done, operator } from '../../contract/stage.ts'
import { until } from '../../support/until.ts'
import { dayMs, openYear, path } from './world.ts'

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

/** A year in which renewals are refused. */
const openHardYear = async (t: Parameters<typeof openYear>[0]) => {
  const year = await openYear(t)
  const { core } = year.farebox
  const catalog = createCatalogService(core.runner)
  const sub = (who: Customer, id: string) => ({
    read: () => year.read(who, id),
    is: (status: string) => year.becomes(who, id, (one) => one.status === status, `to be ${status}`),
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
    ...year,
    core,
    catalog,
    setState: async (productId: string, state: 'active' | 'parked' | 'retired') => {
      const successorId = state === 'retired' ? 'residential-basic' : null
      const result = await catalog.setState({ productId, state, successorId }, operator)
      assert.ok(result.outcome === 'done' && result.changed)
      await year.caughtUp()
    },
    subscribe: async (who: Customer, body: object, key?: string) => {
      const started = await year.start(who, body, key)
      return { ...started, ...sub(who, started.subscriptionId) }
    },
  }
}

describe('a renewal', () => {
  test('of a parked product waits until it is active, and ends the subscription otherwise', async (t) => {
    const year = await openHardYear(t)
    const who = await year.customer({ cents: 9 * price })
    const one = await year.subscribe(who, premium, 'one')
    await year.setState('residential-premium', 'parked')
    year.until(one.currentPeriodEnd)
    await one.waits('product_unavailable')
    const late = await one.read()
    assert.deepEqual([late.status, late.reason], ['past_due', 'product_unavailable'])
    assert.deepEqual((await year.list(who, '?status=past_due')).subscriptions, [late])
    assert.deepEqual(await year.start(who, premium, 'one'), late, 'a retry tells it too')
    await year.setState('residential-premium', 'active')
    year.wait(retryMs)
    const renewed = await one.is('active')
    assert.equal(renewed.currentPeriodStart, one.currentPeriodEnd, 'the wait shifts nothing')
    assert.equal(renewed.reason, null)
    assert.equal(await year.balance(who.key), 7 * price)

    await year.setState('residential-premium', 'parked')
    year.until(renewed.currentPeriodEnd)
    await one.waits('product_unavailable')
    year.wait(3 * dayMs)
    assert.equal((await one.is('expired')).reason, 'product_unavailable')
    assert.equal(await year.balance(who.key), 7 * price)
    const plan = (await year.client.get(`/api/v1/plans/${one.planId}`, { key: who.key })).body
    assert.equal(plan.dataGbTotal, 4, 'what was paid stays usable')
  })

  test('of a retired product ends the subscription; its successor is not bought automatically', async (t) => {
    const year = await openHardYear(t)
    const who = await year.customer({ cents: 9 * price })
    const one = await year.subscribe(who, premium)
    await year.setState('residential-premium', 'retired')
    year.until(one.currentPeriodEnd)
    await one.waits('product_unavailable')
    year.wait(3 * dayMs)
    assert.equal((await one.is('expired')).reason, 'product_unavailable')
    assert.deepEqual([await year.balance(who.key), (await year.orders(who)).length], [8 * price, 1])
  })

  test('over the cap of its key waits for the next day, and counts against the cap', async (t) => {
    const year = await openHardYear(t)
    const owner = await year.customer({ cents: 20 * price })
    const who = { ...owner, key: await year.issueKey(owner.accountId, 2 * price) }
    const one = await year.subscribe(who, premium)
    year.until(one.currentPeriodEnd)
    year.wait(-60_000)
    const buy = (quantity: number) =>
      year.client.post('/api/v1/orders', { product_id: 'residential-premium', quantity }, { key: who.key })
    await done(buy(3))
    year.wait(60_000)
    await one.waits('spend_cap_reached')
    year.wait(dayMs + 2 * 60_000)
    await one.is('active')
    assert.equal((await done(buy(2))).status, 201)
    assert.equal((await buy(1)).body.code, 'spend_cap_reached', 'the renewal is part of the day')

    const { keys } = await year.accounts.read(owner.accountId, operator).then((account) => account!)
    const [keyId] = [...keys].find(([, key]) => key.dailyCapCents === 2 * price)!
    await year.accounts.capKey(keyId as KeyId, price - 1, operator)
    const { currentPeriodEnd } = await one.read()
    const before = await year.balance(who.key)
    year.until(currentPeriodEnd)
    await one.waits('spend_cap_reached')
    year.wait(3 * dayMs)
    assert.equal((await one.is('expired')).reason, 'spend_cap_reached')
    assert.equal(await year.balance(who.key), before)
  })

  test('continues after the key that created it was revoked', async (t) => {
    const year = await openHardYear(t)
    const who = await year.customer({ cents: 9 * price })
    const second = await year.issueKey(who.accountId)
    const one = await year.subscribe(who, premium)
    const { keys } = (await year.accounts.read(who.accountId, operator))!
    for (const [keyId] of [...keys].slice(0, 1)) await year.accounts.revokeKey(keyId as KeyId, operator)
    year.until(one.currentPeriodEnd)
    const owner = { ...who, key: second }
    await year.becomes(
      owner,
      one.subscriptionId,
      ({ currentPeriodStart }) => currentPeriodStart === one.currentPeriodEnd,
      'the renewal',
    )
  })

  test('of a blocked account is not charged; it is paid when the block ends within the grace period', async (t) => {
    const year = await openHardYear(t)
    const [back, away] = [
      await year.customer({ cents: 9 * price }),
      await year.customer({ cents: 9 * price }),
    ]
    const [one, two] = [await year.subscribe(back, premium), await year.subscribe(away, premium)]
    for (const { accountId } of [back, away]) await year.accounts.block(accountId, 'chargebacks', operator)
    year.until(two.currentPeriodEnd)
    await one.waits('account_blocked')
    await two.waits('account_blocked')
    await year.accounts.unblock(back.accountId, operator)
    year.wait(2 * dayMs)
    await one.is('active')
    year.wait(dayMs)
    assert.equal((await two.is('expired')).reason, 'account_blocked')
    assert.deepEqual([await year.balance(back.key), await year.balance(away.key)], [7 * price, 8 * price])
  })

  test('of addresses that ended unpaid is refused while all others are sold out', async (t) => {
    const year = await openHardYear(t)
    const who = await year.customer({ cents: ispPrice })
    const rich = await year.customer({ cents: 1_000_000 })
    const one = await year.subscribe(who, isp)
    const buy = (quantity: number) =>
      year.client.post(
        '/api/v1/orders',
        { product_id: 'isp-static', quantity, fulfillment_meta: { country: 'USA', period_days: 90 } },
        { key: rich.key },
      )
    await done(buy(58))
    year.until(one.currentPeriodEnd)
    year.wait(-60 * 60_000)
    await one.waits('insufficient_balance')
    year.wait(60 * 60_000)
    // Released addresses rest for a quarter of an hour, and then another order gets them.
    await until(
      async () => {
        year.wait(15 * 60_000)
        return (await buy(2)).status === 201
      },
      { timeoutMs: 20_000, everyMs: 500, what: 'the last two addresses' },
    )
    await year.credit(who.accountId, ispPrice)
    await one.waits('out_of_stock')
    assert.equal(await year.balance(who.key), ispPrice)
    year.wait(3 * dayMs)
    assert.equal((await one.is('expired')).reason, 'out_of_stock')
    assert.equal(await year.balance(who.key), ispPrice)
  })

  test('that is past due ends at once when it is canceled, and is never charged again', async (t) => {
    const year = await openHardYear(t)
    const who = await year.customer({ cents: price })
    const one = await year.subscribe(who, premium)
    year.until(one.currentPeriodEnd)
    await one.waits('insufficient_balance')
    const canceled = await done(year.client.call('DELETE', `${path}/${one.subscriptionId}`, { key: who.key }))
    assert.deepEqual([canceled.body.status, canceled.body.reason], ['canceled', 'requested'])
    await year.credit(who.accountId, 5 * price)
    year.wait(dayMs)
    await year.caughtUp()
    assert.equal(await year.balance(who.key), 5 * price)
  })

  test('continues for a product closed to new subscriptions, as long as it is sold', async (t) => {
    const year = await openHardYear(t)
    const [who, poor] = [await year.customer({ cents: 100_000 }), await year.customer({ cents: 0 })]
    const traffic = await year.subscribe(who, premium)
    const timed = await year.subscribe(who, {
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
    const imported = await year.catalog.import(JSON.stringify(file), operator)
    assert.ok(imported.outcome === 'done' && imported.changed)
    await year.caughtUp()
    await until(
      async () => {
        const { body } = await year.client.post(path, premium, { key: poor.key })
        return body.code === 'subscription_not_available'
      },
      { what: 'the new catalogue' },
    )
    year.until(traffic.currentPeriodEnd)
    await year.becomes(
      who,
      traffic.subscriptionId,
      ({ currentPeriodStart }) => currentPeriodStart === traffic.currentPeriodEnd,
      'the renewal',
    )
    // A plan of seven days would be paid for thirty.
    year.wait(dayMs)
    await timed.waits('subscription_not_available')
    year.wait(3 * dayMs)
    assert.equal((await timed.is('expired')).reason, 'subscription_not_available')
  })
})
