import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { done } from '../../contract/stage.ts'
import { dayMs, openYear, path } from './world.ts'

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
    const { client, ...year } = await openYear(t)
    // Months of four lengths follow.
    year.until('2028-01-31T12:00:00.000Z')
    const who = await year.customer({ cents: 100_000 })
    const { key } = who
    const traffic = await year.start(who, { ...premium, interval: 'month' })
    const rented = await year.start(who, { ...isp, interval: 'month' })
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
      year.wait(31 * dayMs)
      for (const { subscriptionId: id } of [traffic, rented])
        await year.becomes(
          who,
          id,
          ({ currentPeriodEnd: end }) => Date.parse(end as string) > year.now(),
          'the renewals',
        )
    }
    for (const { subscriptionId: id } of [traffic, rented]) {
      paid[id] = []
      for (const { type, data } of await year.eventsOf(id))
        if (type === 'SubscriptionStarted' || type === 'SubscriptionRenewed') paid[id].unshift(data.orderId)
      for (const orderId of paid[id])
        assert.equal((await done(client.get(`${orders}/${orderId}`, { key }))).body.subscriptionId, id)
    }

    const all: Order[] = await year.orders(who)
    for (const { orderId, subscriptionId } of all) {
      const of = Object.keys(paid).find((id) => paid[id]?.includes(orderId)) ?? null
      assert.equal(subscriptionId, of)
    }
    const other = await year.customer({ cents: 0 })
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
