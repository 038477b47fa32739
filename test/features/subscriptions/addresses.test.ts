import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { done } from '../../contract/stage.ts'
import { until } from '../../support/until.ts'
import { dayMs, openYear } from './world.ts'

const isp = {
  product_id: 'isp-static',
  quantity: 2,
  interval: 'month',
  fulfillment_meta: { country: 'USA', period_days: 30 },
}
/** 2 addresses for 30 days. */
const price = 560

type Year = Awaited<ReturnType<typeof openYear>>

/** The log's word, which needs no read table: the addresses of every period, once so many are paid. */
const periodsPaid = (year: Year, id: string, periods: number) =>
  until(
    async () => {
      const paid = (await year.eventsOf(id)).flatMap((event) =>
        event.type === 'SubscriptionStarted' || event.type === 'SubscriptionRenewed' ? [event.data] : [],
      )
      return paid.length >= periods ? paid.map(({ proxyIds }) => [...proxyIds].sort()) : null
    },
    { timeoutMs: 20_000, what: `${periods} paid periods` },
  )

describe('a subscription of addresses, without any read table', () => {
  test('that missed two periods rents addresses for the first and keeps them for the second', async (t) => {
    const year = await openYear(t)
    const who = await year.customer({ cents: 3 * price })
    const { subscriptionId } = await year.start(who, isp)
    await year.caughtUp()
    const { projecting } = year.farebox
    await projecting.pause()
    // The addresses ended forty days ago; the second and the third period have begun.
    year.wait(70 * dayMs)
    const [first, second, third] = await periodsPaid(year, subscriptionId, 3)
    assert.ok(
      second?.every((id) => !first?.includes(id)),
      'rentals that ended are gone',
    )
    assert.deepEqual(third, second, 'addresses that run were rented a second time')

    projecting.resume()
    await year.caughtUp()
    const orders: { kind: string; amountCents: number }[] = await year.orders(who)
    assert.deepEqual(
      orders.map(({ kind, amountCents }) => [kind, amountCents]),
      [
        ['extension', price],
        ['order', price],
        ['order', price],
      ],
    )
    const { body } = await done(year.client.get('/api/v1/proxies?status=active', { key: who.key }))
    assert.deepEqual(body.proxies.map(({ proxyId }: { proxyId: string }) => proxyId).sort(), second)
  })

  test('keeps addresses that its customer extended a moment before', async (t) => {
    const year = await openYear(t)
    const who = await year.customer({ cents: 3 * price })
    const { subscriptionId, proxyIds } = await year.start(who, isp)
    await year.caughtUp()
    await year.farebox.projecting.pause()
    year.wait(28 * dayMs)
    const keep = { proxy_ids: proxyIds, period_days: 30 }
    const extension = await done(year.client.post('/api/v1/proxies/extend', keep, { key: who.key }))
    assert.equal(extension.body.amountCents, price)
    // By the read tables they ended a day ago.
    year.wait(3 * dayMs)
    const [first, second] = await periodsPaid(year, subscriptionId, 2)
    assert.deepEqual(second, first)
  })
})
