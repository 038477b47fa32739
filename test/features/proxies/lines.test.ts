import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Customer, done } from '../../support/app-actions.ts'
import { testApp } from '../../support/test-app.ts'

const dayMs = 86_400_000
const path = '/api/v1/proxies'
const rent = (quantity: number, productId = 'isp-static') => ({
  product_id: productId,
  quantity,
  fulfillment_meta: { country: 'USA', period_days: 30 },
})

const linesOf = (text: string): readonly string[] => text.split('\n').slice(0, -1)
const nextOf = (headers: Headers): string | null =>
  /^<(\/[^>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1] ?? null

describe('rented addresses as lines of text', () => {
  test('are counted, and are paged until every address was returned once', async (t) => {
    const app = await testApp(t)
    const { client } = app
    const { key } = await app.customer({ cents: 1_000_000 })
    await done(client.post('/api/v1/orders', rent(73, 'ipv4-datacenter'), { key }))
    await done(client.post('/api/v1/orders', rent(2), { key }))
    const { proxies } = (await done(client.get(`${path}?family=ipv4&limit=100`, { key }))).body
    const all = proxies.map(
      (one: { ip: string; username: string; password: string }) =>
        `${one.ip}:9000:${one.username}:${one.password}`,
    )

    const search = 'format=txt&family=ipv4&country=usa&product_id=ipv4-datacenter&expires_before=2999-01-01'
    for (const [limit, sizes] of [
      ['', [50, 23]],
      ['&limit=30', [30, 30, 13]],
      ['&limit=73', [73]],
      ['&limit=1000', [73]],
    ] as const) {
      const pages: (readonly string[])[] = []
      for (let next: string | null = `${path}?${search}${limit}`; next !== null; ) {
        const page = await done(client.get(next, { key }))
        assert.equal(page.headers.get('x-farebox-total'), '73', next)
        pages.push(linesOf(page.text))
        next = nextOf(page.headers)
        if (next !== null) {
          const again = new URLSearchParams(next.slice(path.length + 1))
          assert.deepEqual(
            ['family', 'country', 'expires_before', 'format'].map((name) => again.get(name)),
            ['ipv4', 'usa', '2999-01-01T00:00:00.000Z', 'txt'],
          )
        }
      }
      assert.deepEqual(
        pages.map(({ length }) => length),
        sizes,
      )
      assert.deepEqual(pages.flat(), all)
    }
    // A filter continues from page to page, and the total counts matching entries.
    const none = await done(client.get(`${path}?format=txt&country=DEU`, { key }))
    assert.deepEqual(
      [none.text, none.headers.get('x-farebox-total'), none.headers.get('link')],
      ['', '0', null],
    )
    // JSON has the same in its body.
    const json = await done(client.get(path, { key }))
    assert.deepEqual([json.body.total, json.headers.get('link')], [75, null])
  })

  test('contain only working addresses, to their last instant; others on request', async (t) => {
    const app = await testApp(t, { own: true })
    const { client } = app
    const { run } = app
    const who: Customer = await app.customer({ cents: 100_000 })
    const { key } = who
    const order = async () => (await done(client.post('/api/v1/orders', rent(2), { key }))).body
    const lines = async (query = '') => {
      const { text, headers } = await done(client.get(`${path}?format=txt${query}`, { key }))
      assert.equal(Number(headers.get('x-farebox-total')), linesOf(text).length)
      return linesOf(text).map((line) => line.slice(0, line.indexOf(':')))
    }
    const ipsOf = async (orderId: string): Promise<string[]> =>
      (await done(client.get(`${path}?order_id=${orderId}`, { key }))).body.proxies.map(
        ({ ip }: { ip: string }) => ip,
      )
    const [held, refunded] = [await order(), await order()]
    const [heldIps, refundedIps] = [await ipsOf(held.orderId), await ipsOf(refunded.orderId)]
    assert.deepEqual(await lines(), [...refundedIps, ...heldIps])

    await run('orders', 'refund', '--order', refunded.orderId)
    assert.deepEqual(await lines(), heldIps)
    assert.deepEqual(await lines(`&order_id=${refunded.orderId}`), [])
    assert.deepEqual(await lines('&status=expired'), refundedIps)

    app.wait(29 * dayMs)
    assert.deepEqual(await lines(), heldIps, 'an address that ends tomorrow works today')
    assert.deepEqual([await lines('&status=expiring'), await lines('&status=active')], [heldIps, []])
    app.wait(dayMs)
    assert.deepEqual(await lines(), [])
    assert.deepEqual(await lines('&status=expired'), [...refundedIps, ...heldIps])
    // The list for programs includes ended rentals: each entry has its status.
    const { proxies } = (await done(client.get(path, { key }))).body
    assert.deepEqual(
      proxies.map(({ status }: { status: string }) => status),
      ['expired', 'expired', 'expired', 'expired'],
    )
  })
})
