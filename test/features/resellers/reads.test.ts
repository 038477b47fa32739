import assert from 'node:assert/strict'
import { test } from 'node:test'
import { positionToken } from '../../../src/kernel/log-position.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const premium = (quantity: number) => ({ product_id: 'residential-premium', quantity })
const isp = (quantity: number) => ({
  product_id: 'isp-static',
  quantity,
  fulfillment_meta: { country: 'USA', period_days: 30 },
})
const api = '/api/v1/reseller'

test("a reseller's reads of its customers, margins and statement", async (t) => {
  const app = await testApp(t, { own: true })
  app.waitUntil('2030-11-19T22:00:00Z')
  const { accountId, client, pay, order } = await app.newReseller(1_000_000)
  await app.resellers.change(accountId, { discountBp: 1_000, markupMillionths: 1_300_000 }, operator)
  const quoted = await until(async () => {
    const { body } = await client.get('/api/v1/products/residential-premium/price?quantity=10')
    return body.marginCents > 0 ? body : null
  })
  assert.deepEqual([quoted.amountCents, quoted.yourCostCents], [6_370, 4_410])

  const alice = await pay('alice', 100_000)
  const bob = await pay('bob', 100_000)
  const own = await order(null, premium(1))
  const first = await order('alice', premium(10))
  assert.equal(first.status, 201, JSON.stringify(first.body))
  const second = await order('bob', isp(2))
  app.waitUntil('2030-11-20T01:00:00Z')
  const third = await order('alice', isp(3))
  app.waitUntil('2030-11-21T10:00:00Z')
  await app.refund(third.body.orderId, { kind: 'proxies', proxyIds: [third.body.proxyIds[0]] })
  await app.refund(second.body.orderId)

  const figures = ({ body }: typeof first, share = 1) => ({
    revenueCents: Math.round(body.amountCents * share),
    costCents: Math.round(body.yourCostCents * share),
  })
  const back = figures(third, 1 / 3)
  const row = (
    key: string,
    orders: number,
    ...parts: readonly { readonly revenueCents: number; readonly costCents: number }[]
  ) => {
    const sum = (name: 'revenueCents' | 'costCents') => parts.reduce((all, part) => all + part[name], 0)
    const [revenueCents, costCents] = [sum('revenueCents'), sum('costCents')]
    return { key, orders, revenueCents, costCents, marginCents: revenueCents - costCents, currency: 'USD' }
  }
  const less = ({ revenueCents, costCents }: { revenueCents: number; costCents: number }) => ({
    revenueCents: -revenueCents,
    costCents: -costCents,
  })

  const margins = async (query: string) => (await client.get(`${api}/margins?${query}`)).body

  await t.test('margins count on their own dates, and refunds are negative', async () => {
    const byDay = await margins('')
    assert.deepEqual(byDay, {
      margins: [
        row('2030-11-21', 0, less(back), less(figures(second))),
        row('2030-11-20', 1, figures(third)),
        row('2030-11-19', 2, figures(first), figures(second)),
      ],
      total: 3,
      complete: true,
      limit: 100_000,
      offset: 0,
    })
    assert.deepEqual((await margins('from=2030-11-20&to=2030-11-21')).margins, [
      row('2030-11-20', 1, figures(third)),
    ])
    assert.deepEqual((await margins('limit=1&offset=2')).margins, [byDay.margins[2]])
    assert.deepEqual(await margins('limit=1&offset=3'), {
      margins: [],
      complete: false,
      total: 3,
      limit: 1,
      offset: 3,
    })
  })

  await t.test('margins are grouped by product and customer too', async () => {
    assert.deepEqual((await margins('group_by=product')).margins, [
      row('residential-premium', 1, figures(first)),
      row('isp-static', 2, figures(second), figures(third), less(back), less(figures(second))),
    ])
    assert.deepEqual((await margins('group_by=customer&to=2030-11-21')).margins, [
      { ...row(alice, 2, figures(first), figures(third)), customer: 'alice' },
      { ...row(bob, 1, figures(second)), customer: 'bob' },
    ])
    assert.deepEqual((await margins('group_by=customer&from=2030-11-21')).margins.length, 2)
  })

  await t.test('a period may begin and end within a day', async () => {
    const total = async (from: string, to: string) => {
      const { totals, lines } = (await client.get(`${api}/statement?from=${from}&to=${to}`)).body
      const byDay = (await margins(`from=${from}&to=${to}`)).margins
      for (const name of ['orders', 'revenueCents', 'costCents', 'marginCents'] as const)
        assert.equal(
          byDay.reduce((sum: number, one: Record<string, number>) => sum + one[name]!, 0),
          totals[name],
          `${from} to ${to}: ${name}`,
        )
      assert.equal(
        lines.reduce((sum: number, one: { marginCents: number }) => sum + one.marginCents, 0),
        totals.marginCents,
      )
      return totals.orders
    }
    const at = (await client.get(`${api}/statement`)).body.lines[2].at as string
    const justAfter = new Date(Date.parse(at) + 1).toISOString()
    assert.equal(await total('2030-11-19T21:59:59Z', at), 2)
    assert.equal(await total('2030-11-19T21:59:59Z', justAfter), 3)
    assert.equal(await total('2030-11-20T00:30:00Z', at), 0)
    assert.equal(await total(at, justAfter), 1)
    assert.equal(await total(justAfter, '2030-11-21T09:00:00Z'), 0)
    assert.equal(await total('2030-11-20T02:00:00%2B01:00', '2030-11-20T03:00:00%2B01:00'), 1)
    assert.equal(await total('0000-01-01', '9999-12-31T23:59:59Z'), 3)
  })

  await t.test('every line of a statement links to its order and its event', async () => {
    const { body } = await client.get(`${api}/statement`)
    assert.deepEqual(
      body.lines.map((line: Record<string, unknown>) => [
        line.type,
        line.orderId,
        line.customer,
        line.quantity,
      ]),
      [
        ['sale', first.body.orderId, 'alice', 10],
        ['sale', second.body.orderId, 'bob', 2],
        ['sale', third.body.orderId, 'alice', 3],
        ['refund', third.body.orderId, 'alice', 3],
        ['refund', second.body.orderId, 'bob', 2],
      ],
    )
    assert.ok(body.lines.every((line: { orderId: string }) => line.orderId !== own.body.orderId))
    const events = new Map<string, ReturnType<typeof decode>>()
    for await (const stored of app.core.log.readStream(ledgerStream(accountId)))
      events.set(stored.id, decode(stored))
    for (const line of body.lines) {
      const event = events.get(line.eventId)
      assert.ok(event)
      assert.deepEqual([positionToken(event.position), event.type], [line.position, line.eventType])
      const data = event.data as { amountMicros: number; costMicros: number; orderId?: string }
      const sign = line.type === 'sale' ? 1 : -1
      assert.deepEqual(
        [line.revenueCents, line.costCents, line.marginCents],
        [
          (sign * data.amountMicros) / 10_000,
          (sign * data.costMicros) / 10_000,
          (sign * (data.amountMicros - data.costMicros)) / 10_000,
        ],
      )
      assert.equal((await client.get(`/api/v1/orders/${line.orderId}`)).status, 200)
    }
    const pages = []
    let after = ''
    for (;;) {
      const page = (await client.get(`${api}/statement?limit=2${after}`)).body
      assert.deepEqual(page.totals, body.totals)
      pages.push(...page.lines)
      if (page.nextAfter === null) break
      after = `&after=${page.nextAfter}`
    }
    assert.deepEqual(pages, body.lines)
    const fromLater = `${api}/statement?from=2030-11-20&after=${first.body.orderId}`
    assert.deepEqual((await client.get(fromLater)).body.lines, body.lines.slice(2))
  })

  await t.test('a statement is available as CSV, without formulas', async () => {
    await pay('=cmd("x"), y', 10_000)
    const odd = await order('=cmd("x"), y', premium(1))
    assert.equal(odd.status, 201)
    const csv = await client.get(`${api}/statement?format=csv`)
    assert.match(csv.headers.get('content-type') ?? '', /^text\/csv/)
    assert.match(csv.headers.get('content-disposition') ?? '', /attachment/)
    const rows = csv.text.split('\r\n')
    assert.equal(rows.length, 1 + 6 + 1)
    assert.match(rows[0]!, /^at,type,order_id,.*,position$/)
    const { lines } = (await client.get(`${api}/statement`)).body
    assert.deepEqual(
      rows[1]!.split(','),
      Object.values(lines[0])
        .map((value) => value ?? '')
        .map(String),
    )
    assert.match(rows[6]!, /,"'=cmd\(""x""\), y",/)
    const part = await client.get(`${api}/statement?format=csv&limit=5`)
    assert.equal(part.headers.get('x-farebox-next-after'), lines[4].refundId)
  })

  await t.test('customers show their credit and totals, and accept a label and a chat', async () => {
    const list = (await client.get(`${api}/customers`)).body
    assert.deepEqual(
      list.customers.map((one: { customer: string }) => one.customer),
      ['=cmd("x"), y', 'bob', 'alice'],
    )
    assert.equal(list.total, 3)
    const one = (await client.get(`${api}/customers/${alice}`)).body
    assert.deepEqual(one, list.customers[2])
    const { key: _key, currency, orders, ...money } = row('', 2, figures(first), figures(third), less(back))
    assert.deepEqual(one, {
      customerId: alice,
      customer: 'alice',
      label: null,
      botChatId: null,
      creditCents: 100_000 - money.revenueCents,
      owedCents: 0,
      currency,
      totals: { orders, depositedCents: 0, refundedCents: back.revenueCents, ...money },
      createdAt: one.createdAt,
    })
    const changed = await client.call('PATCH', `${api}/customers/${alice}`, {
      json: { label: 'Alice', bot_chat_id: '-100123' },
    })
    assert.deepEqual([changed.body.label, changed.body.botChatId], ['Alice', '-100123'])
    const cleared = await client.call('PATCH', `${api}/customers/${alice}`, { json: { label: '' } })
    assert.deepEqual(cleared.body, { ...one, botChatId: '-100123' })
    assert.deepEqual((await client.get(`${api}/customers?customer=bob`)).body.customers[0].customerId, bob)
    assert.equal((await client.get(`${api}/customers?customer=zoe`)).body.total, 0)
    const wrong = await client.call('PATCH', `${api}/customers/${alice}`, { json: { bot_chat_id: 'me' } })
    assert.deepEqual([wrong.status, wrong.body.code], [400, 'invalid_body'])
    assert.match(wrong.body.error, /^bot_chat_id must be the number of a chat such as 123456789, the @name/)
  })

  await t.test('a wrong period or grouping is refused with the accepted values', async () => {
    for (const query of ['from=2030-11-20&to=2030-11-20', 'from=yesterday', 'group_by=week', 'to=1'])
      for (const path of ['margins', 'statement']) {
        if (path === 'statement' && query.startsWith('group_by')) continue
        const refused = await client.get(`${api}/${path}?${query}`)
        assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_parameter'], query)
        if (query === 'from=yesterday')
          assert.equal(
            refused.body.error,
            'from must be a date such as 2026-11-21 (its midnight in UTC) or a time with its offset such as 2026-11-21T02:30:00Z',
          )
      }
    assert.match((await client.get(`${api}/margins?group_by=week`)).body.error, /day.*product.*customer/)
    for (const [query, code] of [
      ['format=xml', 'invalid_parameter'],
      ['limit=0', 'invalid_limit'],
      ['after=ord_none', 'invalid_parameter'],
    ])
      assert.equal((await client.get(`${api}/statement?${query}`)).body.code, code)
  })

  await t.test('ordinary keys are refused, and other resellers see none of it', async () => {
    const other = await app.newReseller(1)
    for (const path of ['customers', `customers/${alice}`, 'margins', 'statement']) {
      const forbidden = await app.buyer.get(`${api}/${path}`)
      assert.deepEqual([forbidden.status, forbidden.body.code], [403, 'reseller_forbidden'])
    }
    assert.equal((await other.client.get(`${api}/customers`)).body.total, 0)
    assert.equal((await other.client.get(`${api}/margins`)).body.total, 0)
    assert.deepEqual((await other.client.get(`${api}/statement`)).body.lines, [])
    const foreign = await other.client.get(`${api}/statement?after=${first.body.orderId}`)
    assert.deepEqual([foreign.status, foreign.body.code], [400, 'invalid_parameter'])
    for (const [method, json] of [['GET'], ['PATCH', { label: 'mine' }]] as const) {
      const hidden = await other.client.call(method, `${api}/customers/${alice}`, json ? { json } : {})
      assert.deepEqual([hidden.status, hidden.body.code], [404, 'not_found'])
    }
  })
})
