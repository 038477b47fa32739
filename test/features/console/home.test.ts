import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { amountText } from '../../../src/platform/ui/text.ts'
import { type Browser, signedIn, staffBrowser } from '../../support/console.ts'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** The figures of the cards on a page. */
const figuresOf = (html: string): ReadonlyMap<string, string> =>
  new Map(
    [...html.matchAll(/<h2>([^<]+)<\/h2><p class="figure">([^<]+)<\/p>/g)].map(
      ([, title = '', figure = '']) => [title, figure],
    ),
  )

/** Opens every link of the content of a page. */
const leadsSomewhere = async (browser: Browser, html: string): Promise<void> => {
  const main = /<main[\s\S]*<\/main>/.exec(html)?.[0] ?? ''
  const links = new Set([...main.matchAll(/href="(\/console[^"#]*)"/g)].map(([, href = '']) => href))
  assert.ok(links.size > 0)
  for (const href of links) {
    const { status, to } = await browser.get(href.replaceAll('&amp;', '&'))
    assert.ok(status === 200 || to !== null, `${href}: ${status}`)
  }
}

test('the home pages', async (t) => {
  const app = await testApp(t, { own: true })

  await t.test(
    'lead a new customer from the top-up to proxy lines, and show how long the balance lasts',
    async () => {
      const account = await app.customer({ cents: 20_000 })
      const browser = await signedIn(app, account.accountId)
      const first = await browser.open('/console')
      assert.match(first.html, /<s><a href="\/console\/top-up">Top up the wallet<\/a><\/s> Done\./)
      assert.match(
        first.html,
        /<li><a href="\/console\/catalogue">Buy proxies<\/a>: <a href="\/console\/catalogue\/[\w-]+">/,
      )
      await leadsSomewhere(browser, first.html)
      const bought = await app.buyer.post(
        '/api/v1/orders',
        { product_id: 'residential-premium', quantity: 5 },
        { key: account.key },
      )
      assert.equal(bought.status, 201)
      const { html } = await browser.open('/console')
      const days = Math.floor(((20_000 - bought.body.amountCents) * 30) / bought.body.amountCents)
      assert.match(html, new RegExp(`It lasts about ${days} days at the current spending\\.`))
      assert.match(html, /<s><a href="\/console\/catalogue">Buy proxies<\/a><\/s> Done\./)
      assert.match(
        html,
        /<a class="button" href="\/console\/plans\/pln_[0-9a-f]{32}\/lines">Get proxy lines<\/a>/,
      )
      assert.equal(figuresOf(html).get('Spent in 30 days'), `$${amountText(bought.body.amountCents)}`)
    },
  )

  await t.test('show a reseller its sales and margin, equal to those of the API', async () => {
    const shop = await app.newReseller(500_000)
    await shop.pay('alice', 50_000)
    assert.equal((await shop.order('alice', { product_id: 'residential-premium', quantity: 3 })).status, 201)
    const { totals } = (await shop.client.get('/api/v1/reseller/statement')).body
    const browser = await signedIn(app, shop.accountId)
    const { html } = await browser.open('/console')
    for (const title of ['Sales today', 'Sales in 7 days', 'Sales this month'])
      assert.equal(figuresOf(html).get(title), `$${amountText(totals.revenueCents)}`, title)
    assert.match(html, new RegExp(`Margin \\$${amountText(totals.marginCents)}`))
    assert.match(html, />alice</)
    await leadsSomewhere(browser, html)
  })

  await t.test('show finance the revenue of the books, and not the tasks of operators', async () => {
    const finance = await staffBrowser(app, ['finance'])
    const { html } = await finance.open('/console/staff')
    const [revenue] = [...figuresOf(html)].filter(([title]) => title.startsWith('Revenue in'))
    const money = await finance.open('/console/finance/money')
    const [, shown = ''] =
      /<h2>Revenue in 30 days, USD<\/h2><p class="figure">([^<]+)<\/p>/.exec(money.html) ?? []
    assert.equal(revenue?.[1], `$${shown}`)
    assert.match(html, /<a href="[^"]*revenue[^"]*">Residential<\/a>/)
    assert.match(html, /after expenses of the books/)
    assert.match(money.html, /Line: the 30 days before<\/p>/)
    assert.ok(money.html.includes(`<td class="number lead">$${shown}</td>`), 'the table of the plot')
    assert.doesNotMatch(html, /View an account/)
    await leadsSomewhere(finance, html)
  })

  await t.test('list failing webhook endpoints for their owner and for operators', async () => {
    const account = await app.customer({ email: 'hooks@example.com', cents: 10_000 })
    const registered = await app.buyer.post(
      '/api/v1/webhooks',
      { url: 'http://127.0.0.1:9/closed' },
      { key: account.key },
    )
    assert.equal(registered.status, 201)
    const owner = await signedIn(app, account.accountId)
    const operator = await staffBrowser(app, ['operator'])
    const endpointId = registered.body.id as string
    await app.buyer.post(`/api/v1/webhooks/${endpointId}/test`, {}, { key: account.key })
    await until(
      async () => (await owner.open('/console')).html.includes(`href="/console/webhooks/${endpointId}"`),
      { what: 'the failed attempt' },
    )
    const { html } = await operator.open('/console/operator/webhooks')
    assert.match(html, /hooks@example\.com/)
    const home = (await operator.open('/console/staff')).html
    assert.match(home, /1 webhook endpoint failing or disabled/)
    await leadsSomewhere(operator, home)
  })

  await t.test('show operators exits, pools and gateways with problems', async () => {
    const { pool } = app.core
    const operator = await staffBrowser(app, ['operator'])
    const home = async () => (await operator.open('/console/staff')).html
    const problems = {
      exit: '1 exit of the gateway not working',
      pool: '1 pool of addresses with less than 10 % free',
      gateway: 'stripe sends no callbacks: its last payment was found without one',
    }
    const shown = async () =>
      Object.entries(problems).flatMap(([name, text]) => (html.includes(text) ? [name] : []))
    let html = await home()
    assert.deepEqual(await shown(), [])

    const file = join(app.env.FAREBOX_DATA!, 'exits.jsonl')
    await writeFile(
      file,
      JSON.stringify({ id: 'dead-1', kind: 'http', host: '127.0.0.1', port: 9, country: 'us' }),
    )
    const imported = await operate(['exits', 'import', file], app.env)
    assert.equal(imported.code, 0, imported.err)
    await pool.query(
      `insert into work.exit_health (exit_id, alive, problem) values ('dead-1', false, 'connection refused')`,
    )
    const account = await app.customer({ cents: 5_000_000 })
    const isp = { product_id: 'isp-static', fulfillment_meta: { country: 'USA', period_days: 30 } }
    const rented = await app.buyer.post('/api/v1/orders', { ...isp, quantity: 55 }, { key: account.key })
    assert.equal(rented.status, 201, rented.text)
    const deposit = await app.openDeposit(account.key, { amount_cents: 2_000, method: 'card' })
    await app.act(deposit.deposit_id, 'pay', 2_000)
    await app.untilDeposit(account.key, deposit.deposit_id, { status: 'paid' })
    await pool.query('delete from work.gateway_inbox')
    html = await home()
    assert.deepEqual(await shown(), ['exit', 'pool', 'gateway'])
    await leadsSomewhere(operator, html)
  })
})
