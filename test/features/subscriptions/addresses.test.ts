import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { done } from '../../support/app-actions.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { dayMs, subscriptionsOf } from './subscriptions.ts'

const isp = {
  product_id: 'isp-static',
  quantity: 2,
  interval: 'month',
  fulfillment_meta: { country: 'USA', period_days: 30 },
}
/** 2 addresses for 30 days. */
const price = 560

/** The log's word, which needs no read table: the addresses of every period, once so many are paid. */
const periodsPaid = ({ eventsOf }: ReturnType<typeof subscriptionsOf>, id: string, periods: number) =>
  until(
    async () => {
      const paid = (await eventsOf(id)).flatMap((event) =>
        event.type === 'SubscriptionStarted' || event.type === 'SubscriptionRenewed' ? [event.data] : [],
      )
      return paid.length >= periods ? paid.map(({ proxyIds }) => [...proxyIds].sort()) : null
    },
    { timeoutMs: 20_000, what: `${periods} paid periods` },
  )

describe('a subscription of addresses, without any read table', () => {
  test('that missed two periods rents addresses for the first and keeps them for the second', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const who = await app.customer({ cents: 3 * price })
    const { subscriptionId } = await subs.start(who, isp)
    await app.caughtUp()
    const { projecting } = app.farebox
    await projecting.pause()
    t.after(() => projecting.resume())
    // The addresses ended forty days ago; the second and the third period have begun.
    app.wait(70 * dayMs)
    const [first, second, third] = await periodsPaid(subs, subscriptionId, 3)
    assert.ok(
      second?.every((id) => !first?.includes(id)),
      'rentals that ended are gone',
    )
    assert.deepEqual(third, second, 'addresses that run were rented a second time')

    projecting.resume()
    await app.caughtUp()
    const orders: { kind: string; amountCents: number }[] = await subs.orders(who)
    assert.deepEqual(
      orders.map(({ kind, amountCents }) => [kind, amountCents]),
      [
        ['extension', price],
        ['order', price],
        ['order', price],
      ],
    )
    const { body } = await done(app.client.get('/api/v1/proxies?status=active', { key: who.key }))
    assert.deepEqual(body.proxies.map(({ proxyId }: { proxyId: string }) => proxyId).sort(), second)
  })

  test('keeps addresses that its customer extended a moment before', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const subs = subscriptionsOf(app)
    const who = await app.customer({ cents: 3 * price })
    const { subscriptionId, proxyIds } = await subs.start(who, isp)
    await app.caughtUp()
    const { projecting } = app.farebox
    await projecting.pause()
    t.after(() => projecting.resume())
    app.wait(28 * dayMs)
    const keep = { proxy_ids: proxyIds, period_days: 30 }
    const extension = await done(app.client.post('/api/v1/proxies/extend', keep, { key: who.key }))
    assert.equal(extension.body.amountCents, price)
    // By the read tables they ended a day ago.
    app.wait(3 * dayMs)
    const [first, second] = await periodsPaid(subs, subscriptionId, 2)
    assert.deepEqual(second, first)
  })
})
