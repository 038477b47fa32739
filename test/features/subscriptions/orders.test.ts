import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { done } from '../../support/app-actions.ts'
import { testApp } from '../../support/test-app.ts'
import { dayMs, path, subscriptionsOf } from './subscriptions.ts'

const orders = '/api/v1/orders'
const premium = { product_id: 'residential-premium', quantity: 1 }
const isp = {
  product_id: 'isp-static',
  quantity: 1,
  fulfillment_meta: { country: 'USA', period_days: 30 },
}

type Order = { readonly orderId: string; readonly subscriptionId: string | null; readonly createdAt: string }

const idsOf = (list: readonly Order[]): string[] => list.map(({ orderId }) => orderId)

describe('the orders of a subscription', () => {
  test('name it, from the first to each renewal, and no other order does', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const { client } = app
    // Months of four lengths follow.
    app.waitUntil('2028-01-31T12:00:00.000Z')
    const who = await app.customer({ cents: 100_000 })
    const { key } = who
    const traffic = await subs.start(who, { ...premium, interval: 'month' })
    const rented = await subs.start(who, { ...isp, interval: 'month' })
    const plain = (await done(client.post(orders, premium, { key }))).body
    assert.deepEqual(
      [plain.planId, plain.subscriptionId],
      [traffic.planId, null],
      'a top-up of the same plan',
    )
    const topUp = (await done(client.post(`/api/v1/plans/${traffic.planId}/topup`, { quantity: 1 }, { key })))
      .body
    assert.equal(topUp.subscriptionId, null)

    const paid: Record<string, string[]> = {}
    for (let month = 0; month < 4; month += 1) {
      app.wait(31 * dayMs)
      for (const { subscriptionId: id } of [traffic, rented])
        await subs.becomes(
          who,
          id,
          ({ currentPeriodEnd: end }) => Date.parse(end as string) > app.core.clock(),
          'the renewals',
        )
    }
    for (const { subscriptionId: id } of [traffic, rented]) {
      paid[id] = []
      for (const { type, data } of await subs.eventsOf(id))
        if (type === 'SubscriptionStarted' || type === 'SubscriptionRenewed') paid[id].unshift(data.orderId)
      for (const orderId of paid[id])
        assert.equal((await done(client.get(`${orders}/${orderId}`, { key }))).body.subscriptionId, id)
    }

    const all: Order[] = await subs.orders(who)
    for (const { orderId, subscriptionId } of all) {
      const of = Object.keys(paid).find((id) => paid[id]?.includes(orderId)) ?? null
      assert.equal(subscriptionId, of)
    }
    const other = await app.customer({ cents: 0 })
    const list = async (query: string, as = key) =>
      (await done(client.get(`${orders}${query}`, { key: as }))).body
    for (const [id, expected] of Object.entries(paid)) {
      assert.equal(expected.length, 5)
      const whole = await list(`?subscription_id=${id}`)
      assert.deepEqual([idsOf(whole.orders), whole.total], [expected, 5])
      const page = await list(`?subscription_id=${id}&limit=2&offset=1&status=completed`)
      assert.deepEqual([idsOf(page.orders), page.total], [expected.slice(1, 3), 5])
      assert.equal((await list(`?subscription_id=${id}&status=refunded`)).total, 0)
      assert.deepEqual(await list(`?subscription_id=${id}`, other.key), {
        orders: [],
        total: 0,
        limit: 50,
        offset: 0,
      })
    }
    assert.equal((await list('?subscription_id=sub_none')).total, 0)
    assert.equal((await list('')).total, all.length)
    await done(client.call('DELETE', `${path}/${traffic.subscriptionId}`, { key }))
    assert.equal((await list(`?subscription_id=${traffic.subscriptionId}`)).total, 5)
  })
})
