import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { signedIn } from '../../support/console.ts'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** The whole cents of a figure such as `$1,234.50`. */
const centsOf = (text: string): number => {
  const [, minus, whole = '', cents = ''] = /^(\u2212?)\$?([\d,]+)\.(\d\d)$/.exec(text) ?? []
  assert.notEqual(whole, '', text)
  const value = Number(whole.replaceAll(',', '')) * 100 + Number(cents)
  return minus === '' ? value : -value
}

const cardsOf = (html: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...html.matchAll(/<h2>([^<]+)<\/h2><p class="figure">([^<]+)<\/p>/g)].map(([, title, figure]) => [
      title,
      figure,
    ]),
  )

test('the pages of a reseller', async (t) => {
  const app = await testApp(t)
  const shop = await app.newReseller(500_000)
  const rival = await app.newReseller(500_000)
  const browser = await signedIn(app, shop.accountId)
  const terms = ['--account', shop.accountId, '--discount', '10', '--markup', '1.30']
  assert.equal((await operate(['reseller', 'set', ...terms], app.env)).code, 0)
  const quote = '/api/v1/products/residential-premium/price?quantity=2'
  await until(async () => (await shop.client.get(quote)).body.marginCents > 0, { what: 'the terms' })
  const month = new Date(app.core.clock()).toISOString().slice(0, 7)
  const plan = (quantity: number) => ({ product_id: 'residential-premium', quantity })
  const aliceId = await shop.pay('alice', 50_000)
  await shop.pay('<b>bob', 50_000)
  const rivals = await rival.pay('alice', 50_000)
  const ordered = [
    (await shop.order('alice', plan(3))).body,
    (await shop.order('alice', plan(2))).body,
    (await shop.order('<b>bob', plan(1))).body,
  ]
  for (const { status } of ordered) assert.equal(status, 'completed')
  await rival.order('alice', plan(7))
  await app.refund(ordered[1].orderId)
  const read = async (path: string) => (await shop.client.get(`/api/v1/reseller/${path}`)).body

  await t.test("a month's margins equal the API's, and its days and products add up to them", async () => {
    const { html } = await browser.open(`/console/reseller/margins?month=${month}`)
    const { totals } = await read('statement')
    assert.ok(totals.marginCents > 0)
    const cards = cardsOf(html)
    assert.deepEqual(
      [cards.Revenue, cards['Your cost'], cards.Margin].map((figure) => centsOf(figure ?? '')),
      [totals.revenueCents, totals.costCents, totals.marginCents],
    )
    assert.match(cards.Sales ?? '', new RegExp(`^${totals.orders} order`))
    assert.match(html, /<svg class="bars"/)
    assert.match(html, new RegExp(`href="/console/reseller/customers/${aliceId}">alice<`))
    assert.match(html, /&lt;b&gt;bob/)
    const [, day = ''] = /href="(\/console\/reseller\/statement\?from=[\d-]+&amp;to=[\d-]+)"/.exec(html) ?? []
    assert.deepEqual(
      cardsOf((await browser.open(day.replace('&amp;', '&'))).html),
      cards,
      'all of it happened on this day',
    )
    const before = await browser.open('/console/reseller/margins?month=2020-01')
    assert.match(before.html, /There were no sales/)
    for (const wrong of ['2026-13', 'x', '"><script>x'])
      assert.equal(
        (await browser.get(`/console/reseller/margins?${new URLSearchParams({ month: wrong })}`)).status,
        200,
      )
  })

  await t.test(
    'the statement has every sale and refund, links to orders, and its file equals the page',
    async () => {
      const { html } = await browser.open('/console/reseller/statement')
      const { lines } = await read('statement')
      assert.equal(lines.length, 4)
      for (const { orderId } of lines) assert.match(html, new RegExp(`href="/console/orders/${orderId}"`))
      assert.equal((await browser.get(`/console/orders/${ordered[0].orderId}`)).status, 200)
      const { html: file } = await browser.get('/console/reseller/statement?format=csv&sort=Time')
      const rows = file.trim().split('\r\n').slice(1)
      assert.equal(rows.length, lines.length)
      for (const [at, { orderId, refundId, position, marginCents }] of lines.entries()) {
        for (const id of [orderId, refundId ?? '', position]) assert.ok(rows[at]?.includes(id), rows[at])
        assert.ok(rows[at]?.includes((marginCents / 100).toFixed(2)), rows[at])
      }
      const newest = await browser.open('/console/reseller/statement')
      const places = lines.map(({ orderId, type }: { orderId: string; type: string }) =>
        newest.html.indexOf(`${orderId}">${type === 'sale' ? 'Sale' : 'Refund'}`),
      )
      assert.deepEqual(
        places,
        places.toSorted((one: number, other: number) => other - one),
      )
      const ofToday = await browser.open(`/console/reseller/statement?from=${month}-01&to=2020-01-01`)
      assert.match(ofToday.html, /Nothing matches/)
      const ofAlice = await browser.open(`/console/reseller/statement?customer=${aliceId}`)
      assert.doesNotMatch(ofAlice.html, new RegExp(ordered[2].orderId))
      assert.match(ofAlice.html, new RegExp(ordered[0].orderId))
      const byRef = await browser.open('/console/reseller/statement?customer=alice')
      assert.deepEqual(cardsOf(byRef.html), cardsOf(ofAlice.html))
    },
  )

  await t.test('customers are listed with their credit, found by external id, and labelled', async () => {
    const { html } = await browser.open('/console/reseller/customers')
    assert.match(html, />alice<\/a>/)
    assert.doesNotMatch(html, /<b>bob/)
    const found = await browser.open('/console/reseller/customers?search=alice')
    assert.doesNotMatch(found.html, /bob/)
    assert.match((await browser.open('/console/reseller/customers?search=unknown')).html, /Nothing matches/)
    const here = `/console/reseller/customers/${aliceId}`
    const one = await browser.open(here)
    const { creditCents, totals } = await read(`customers/${aliceId}`)
    const fact = (name: string) => new RegExp(`<dt>${name}</dt><dd>([^<]+)</dd>`).exec(one.html)?.[1] ?? ''
    assert.deepEqual([centsOf(fact('Credit')), centsOf(fact('Margin'))], [creditCents, totals.marginCents])
    assert.match(one.html, new RegExp(`href="/console/orders/${ordered[0].orderId}"`))
    assert.equal((await browser.post(here, { label: 'Alice <1>', chat: '123456' })).to, here)
    const changed = await read(`customers/${aliceId}`)
    assert.deepEqual([changed.label, changed.botChatId], ['Alice <1>', '123456'])
    const refused = await browser.post(here, { label: 'y'.repeat(65), chat: 'no chat' })
    assert.equal(refused.status, 400)
    assert.match(refused.html, /id="label-problem"/)
    assert.match(refused.html, /value="no chat"/)
    assert.equal((await read(`customers/${aliceId}`)).label, 'Alice <1>')
  })

  await t.test('terms are those that the service set, and credentials are named, never shown', async () => {
    const file = join(app.env.FAREBOX_DATA ?? '', 'gateway.json')
    await writeFile(file, JSON.stringify({ secretKey: 'sk_test_s3cret', webhookSecret: 'whsec_s3cret' }))
    const gateway = await operate(
      [
        'reseller',
        'gateway',
        '--account',
        shop.accountId,
        '--rail',
        'card',
        '--provider',
        'stripe',
        '--credentials',
        file,
      ],
      app.env,
    )
    assert.equal(gateway.code, 0, gateway.err + gateway.out)
    let page = await browser.open('/console/reseller/terms')
    await until(
      async () => {
        page = await browser.open('/console/reseller/terms')
        return page.html.includes('stripe')
      },
      { what: 'the gateway' },
    )
    assert.match(page.html, /10 % off the list price/)
    assert.match(page.html, /1\.30 × the list price/)
    assert.match(page.html, /set up</)
    assert.doesNotMatch(page.html, /s3cret/)
  })

  await t.test('lists of orders and plans name the customer, with a link', async () => {
    for (const path of ['/console', '/console/orders', '/console/plans']) {
      const { html } = await browser.open(path)
      assert.match(html, new RegExp(`href="/console/reseller/customers/${aliceId}">alice<`), path)
    }
  })

  await t.test('customers page by key, each once, newest first', async () => {
    for (let n = 0; n < 55; n += 1) await shop.pay(`crowd-${n}`, 1)
    const seen: string[] = []
    for (let next: string | undefined = '/console/reseller/customers'; next !== undefined; ) {
      const { html } = await browser.open(next)
      seen.push(
        ...[...html.matchAll(/href="\/console\/reseller\/customers\/(cus_\w+)"/g)].map(([, id]) => id!),
      )
      next = /<a href="([^"]+)" rel="next">/.exec(html)?.[1]?.replaceAll('&amp;', '&')
    }
    const { customers } = await read('customers?limit=200')
    assert.deepEqual(
      seen,
      customers.map(({ customerId }: { customerId: string }) => customerId),
    )
  })

  await t.test(
    "another reseller's customers are not found, and other accounts have no such pages",
    async () => {
      for (const path of [
        `customers/${rivals}`,
        `statement?customer=${rivals}`,
        `statement?format=csv&customer=${rivals}`,
      ])
        assert.equal((await browser.get(`/console/reseller/${path}`)).status, 404, path)
      assert.equal(
        (await browser.post(`/console/reseller/customers/${rivals}`, { label: 'mine' })).status,
        404,
      )
      assert.equal((await browser.get(`/console/reseller/customers?before=${rivals}`)).status, 200)
      const customer = await app.customer({ email: 'plain@example.com', cents: 10_000 })
      const plain = await signedIn(app, customer.accountId)
      for (const path of ['margins', 'customers', 'statement', 'movement', 'terms'])
        assert.equal((await plain.get(`/console/reseller/${path}`)).status, 403, path)
      assert.doesNotMatch((await plain.open('/console')).html, /\/console\/reseller/)
    },
  )
})
