import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import type { AddressReplaced } from '../../../src/domain/stock/events.ts'
import { stockFold } from '../../../src/domain/stock/fold.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
import { decided } from '../../../src/kernel/decider.ts'
import type { ProxyId } from '../../../src/kernel/ids.ts'
import { stockStream } from '../../../src/kernel/streams.ts'
import { handle } from '../../../src/platform/commands/command.ts'
import { type Customer, done } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { type OwnApp, testApp } from '../../support/test-app.ts'

const dayMs = 86_400_000

describe('replacing a rented address', () => {
  const ends: (() => unknown)[] = []
  let app: OwnApp

  before(async () => {
    const held = { after: (end: () => unknown) => void ends.push(end) } as TestContext
    app = await testApp(held, { own: 'file' })
  })
  after(async () => {
    for (const end of ends) await end()
  })

  const rent = async (quantity = 1, productId = 'isp-static', meta: object = {}) => {
    const { status, body } = await app.buyer.post('/api/v1/orders', {
      product_id: productId,
      quantity,
      fulfillment_meta: { country: 'USA', period_days: 30, ...meta },
    })
    assert.equal(status, 201, JSON.stringify(body))
    return body.proxyIds as readonly string[]
  }
  const pathOf = (id: string) => `/api/v1/proxies/${id}`
  const read = async (id: string) => (await app.buyer.get(pathOf(id))).body
  const replace = (id: string, json: object = { reason: 'not_working' }, headers = {}) =>
    app.buyer.call('POST', `${pathOf(id)}/replace`, { json, headers })

  test('continues the rental with another address of the same product and country, and the old one rests a day', async () => {
    const [id = ''] = await rent()
    const old = await read(id)
    const { status, body } = await replace(id)
    assert.equal(status, 200, JSON.stringify(body))
    assert.notEqual(body.ip, old.ip)
    const { ip, host, city, asn, asnOrg } = old
    assert.deepEqual({ ...body, ip, host, city, asn, asnOrg }, old, 'all else is as it was')
    assert.deepEqual(await read(id), body)
    const { rows } = await app.core.pool.query<{ hours: number }>(
      `select round(extract(epoch from available_from - now()) / 3600)::int as hours
         from read.resting_addresses where ip = $1::text`,
      [old.ip],
    )
    assert.deepEqual(rows, [{ hours: 24 }])
  })

  test('happens once per key when repeated, and is refused for a day without a key', async () => {
    const [id = ''] = await rent()
    const headers = { 'Idempotency-Key': 'swap-1' }
    const first = await replace(id, { reason: 'low_speed' }, headers)
    const again = await replace(id, { reason: 'low_speed' }, headers)
    assert.deepEqual([again.status, again.body], [200, first.body])
    assert.equal(again.headers.get('idempotency-replayed'), 'true')
    const other = await replace(id, { reason: 'not_working' }, headers)
    assert.equal(other.body.code, 'idempotency_conflict')
    const soon = await replace(id)
    assert.equal(soon.body.code, 'replacement_limit_reached')
    assert.equal((await read(id)).ip, first.body.ip)
    app.wait(dayMs)
    assert.equal((await replace(id)).status, 200)
  })

  test('happens once for many simultaneous requests', async () => {
    const [id = ''] = await rent()
    const answers = await Promise.all(Array.from({ length: 5 }, () => replace(id)))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409, 409, 409])
  })

  test('keeps carrier, service and rotation of a mobile rental', async () => {
    const meta = { carrier_id: 'verizon-us', service: 'dedicated', rotation_minutes: 0 }
    const [id = ''] = await rent(1, 'mobile-dedicated', meta)
    const old = await read(id)
    const { status, body } = await replace(id)
    assert.equal(status, 200, JSON.stringify(body))
    assert.notEqual(body.ip, old.ip)
    assert.deepEqual([body.carrier, body.service, body.rotation], [old.carrier, old.service, old.rotation])
  })

  test('needs a comment for the reason custom, which is stored in the vault, not in the log', async () => {
    const [id = ''] = await rent()
    for (const json of [{ reason: 'custom' }, { reason: 'ugly' }, { reason: 'custom', comment: '' }, {}])
      assert.equal((await replace(id, json)).body.code, 'invalid_body', JSON.stringify(json))
    const comment = 'blocked by my bank'
    assert.equal((await replace(id, { reason: 'custom', comment })).status, 200)
    const { pool } = app.core
    const { rows } = await pool.query('select proxy_id, comment from vault.replacement_comments')
    assert.deepEqual(rows, [{ proxy_id: id, comment }])
    const { cli } = app
    const { ip } = await read(id)
    const { json } = await cli('proxies', 'show', id)
    const [{ replacedAt, formerIp, ...said }] = json.replacements
    assert.deepEqual([said, json.replacements.length], [{ reason: 'custom', ip, comment }, 1])
    assert.match(
      (await cli.text('proxies', 'show', id)).out,
      new RegExp(`replacement 1 +${replacedAt} custom, was ${formerIp}: ${comment}`),
    )
    const listed = await cli.text('proxies', 'list', '--account', app.demo.buyer.accountId)
    assert.match(listed.out, new RegExp(`${id} .* custom$`, 'm'))
  })

  test("is refused for another account's rental, without another network, and after the end", async () => {
    const [id = ''] = await rent()
    const foreign = await app.reseller.call('POST', `${pathOf(id)}/replace`, {
      json: { reason: 'not_working' },
    })
    assert.equal(foreign.body.code, 'not_found')
    const { body } = await replace(id, { reason: 'change_network' })
    assert.equal(body.code, 'out_of_stock')
    app.wait(31 * dayMs)
    assert.equal((await replace(id)).body.code, 'rental_ended')
  })

  test('leaves a log in which verify finds a rental with the address of another one', async () => {
    await app.verified()
    const [one = '', other = ''] = await rent(2)
    const ref = { stream: stockStream('isp-static', 'USA'), fold: stockFold }
    await handle(app.core.runner, { ...operator, name: 'forge' }, ref, (stock) => {
      const address = stock.addresses.get(stock.rentals.get(other)!.ip)!
      const former = stock.addresses.get(stock.rentals.get(one)!.ip)!
      return decided<AddressReplaced>({
        type: 'AddressReplaced',
        data: {
          proxyId: one as ProxyId,
          accountId: app.demo.buyer.accountId,
          reason: 'not_working',
          requestId: null,
          former: { ip: former.ip, carrierId: null, service: null },
          address,
          replacedAt: isoTime(Date.now()),
          availableFrom: isoTime(Date.now()),
        },
      })
    })
    await assert.rejects(app.verified(), /while its rental .* runs/)
  })
})

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
    const app = await testApp(t, { own: 'file' })
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
