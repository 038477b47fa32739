import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMeteringHour } from '../../../src/gateway/admit/budgets.ts'
import { createUsage } from '../../../src/gateway/admit/record-usage.ts'
import { createReporter } from '../../../src/gateway/admit/reporter.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { hiddenField, signedIn, staffBrowser } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'

test('the page of a plan', async (t) => {
  const app = await testApp(t)
  const { core } = app
  const account = await app.customer({ email: 'pia@example.com', cents: 20_000 })
  const other = await app.customer({ email: 'other@example.com', cents: 20_000 })
  const browser = await signedIn(app, account.accountId)
  const call = (path: string) => app.buyer.get(`/api/v1${path}`, { key: account.key })
  const order = async (key: string, productId: string, quantity: number) => {
    const { status, body } = await app.buyer.post(
      '/api/v1/orders',
      { product_id: productId, quantity },
      { key, headers: { 'Idempotency-Key': crypto.randomUUID() } },
    )
    assert.equal(status, 201, JSON.stringify(body))
    return body.planId as PlanId
  }
  const planId = await order(account.key, 'residential-premium', 2)
  const here = `/console/plans/${planId}`
  const linesIn = (html: string): readonly string[] =>
    (/<textarea id="lines"[^>]*>\n?([^<]*)<\/textarea>/.exec(html)?.[1] ?? '').trim().split('\n')

  await t.test('is linked from the list, the order and the plans of the overview', async () => {
    assert.match((await browser.get('/console/plans')).html, new RegExp(`href="${here}"`))
    const { orders } = (await call('/orders')).body
    const order = await browser.get(`/console/orders/${orders[0].orderId}`)
    assert.match(order.html, new RegExp(`href="${here}"`))
    const { html } = await browser.get(here)
    assert.match(html, /active/)
    assert.match(html, new RegExp(orders[0].orderId))
  })

  await t.test('generates the same lines as the API', async () => {
    const typed = { country: 'us', sticky: '30', protocol: 'socks5', count: '3', format: 'url' }
    const { html, status } = await browser.post(`${here}/lines`, { ...typed, as: 'page' })
    assert.equal(status, 200)
    const lines = linesIn(html)
    assert.equal(lines.length, 3)
    const { username, password } = (await call(`/plans/${planId}`)).body.connection
    const form = new RegExp(
      `^socks5h?://${username}-country-us-session-\\w+-lifetime-30:${password}@[\\w.]+:\\d+$`,
    )
    for (const line of lines) assert.match(line, form)
    const file = await browser.post(`${here}/lines`, { ...typed, as: 'file' })
    assert.match(String(file.headers['content-type']), /^text\/plain/)
    assert.match(String(file.headers['content-disposition']), new RegExp(`lines-${planId}\\.txt`))
    assert.equal(file.html.trim().split('\n').length, 3)
  })

  await t.test('offers regions and cities of the chosen country, and a test command', async () => {
    const none = await browser.get(`${here}/lines`)
    assert.doesNotMatch(none.html, /name="city"/)
    const { html } = await browser.get(`${here}/lines?country=us&city=dallas`)
    assert.match(html, /<option value="dallas" selected>/)
    assert.match(
      html,
      /curl -x &#39;http:\/\/\w+-country-us-city-dallas:\w+@[\w.:]+&#39; http:\/\/whoami\.sandbox\//,
    )
    const other = await browser.get(`${here}/lines?country=de&city=dallas`)
    assert.doesNotMatch(other.html, /value="dallas"/)
    assert.match(
      other.html,
      /curl -x &#39;http:\/\/\w+-country-de:/,
      'the line is of the city that is chosen',
    )
  })

  await t.test('reports a wrong line at its field, and keeps the input', async () => {
    for (const [field, value] of [
      ['count', 'ten'],
      ['count', '0'],
      ['count', '999999'],
      ['sticky', '-1'],
      ['protocol', 'gopher'],
      ['format', 'custom'],
      ['country', 'zz'],
      ['country', '"><script>x'],
    ] as const) {
      const { status, html } = await browser.post(`${here}/lines`, { count: '2', [field]: value })
      assert.equal(status, 400, value)
      assert.match(html, new RegExp(`href="#${field}"`), value)
      assert.doesNotMatch(html, /<script>x/)
      if (field === 'count' || field === 'sticky')
        assert.match(html, new RegExp(`name="${field}"[^>]*value="${value}"`))
    }
  })

  await t.test('shows traffic, failures with their remedy, and hosts', async () => {
    const meteringHour = createMeteringHour(core.clock)
    const usage = createUsage({
      pool: core.pool,
      clock: core.clock,
      reporter: createReporter({ name: 'plans-test', onRefused: assert.fail }),
      hosts: 'full',
      meteringHour,
    })
    usage.traffic(planId, 1_500, 700_000)
    usage.ended({ planId, error: null, host: 'example.com', bytes: 701_500 })
    usage.ended({ planId, error: 'target_timeout', host: 'slow.example', bytes: 0 })
    meteringHour.batchTaken()
    meteringHour.batchReported()
    await usage.flush()
    for (const span of ['day', 'week', 'month', 'nonsense']) {
      const { html } = await browser.get(`${here}?usage=${span}`)
      assert.match(html, /<p>701\.50 kB, 2 connections, 1 failure\./, span)
      assert.match(html, /<svg class="bars"/)
      assert.match(html, /example\.com/)
      assert.match(html, /<code>target_timeout<\/code>/)
    }
  })

  await t.test('is topped up once at the shown price, and not at another', async () => {
    const before = (await call(`/plans/${planId}`)).body.dataGbTotal
    const page = await browser.get(`${here}/top-up?quantity=3`)
    const typed = { quantity: '3', form: hiddenField(page, 'form'), expected: hiddenField(page, 'expected') }
    const dearer = await browser.post(`${here}/top-up`, {
      ...typed,
      expected: String(Number(typed.expected) - 1),
    })
    assert.equal(dearer.status, 409)
    assert.match(dearer.html, /Nothing was ordered/)
    const fresh = { ...typed, form: hiddenField(dearer, 'form') }
    for (let n = 0; n < 2; n += 1) assert.equal((await browser.post(`${here}/top-up`, fresh)).to, here)
    assert.equal((await call(`/plans/${planId}`)).body.dataGbTotal, before + 3)
    const bad = await browser.get(`${here}/top-up?quantity=many`)
    assert.equal(bad.status, 400)
    assert.match(bad.html, /id="quantity-problem"/)
  })

  await t.test('has a whitelist of addresses, each for one plan', async () => {
    const add = (form: object) => browser.post(`${here}/whitelist`, form as Record<string, string>)
    assert.equal(
      (await add({ cidr: '93.184.216.34', label: '<b>office', country: 'us' })).to,
      `${here}/whitelist`,
    )
    const { html } = await browser.get(`${here}/whitelist`)
    assert.match(html, /93\.184\.216\.34\/32/)
    assert.match(html, /&lt;b&gt;office/)
    assert.match(html, /country us/)
    const { whitelist } = (await call(`/plans/${planId}/whitelist`)).body
    assert.equal(whitelist.length, 1)
    for (const cidr of ['10.0.0.1', 'nonsense', '93.184.216.0/8', '']) {
      const { status, html: refused } = await add({ cidr })
      assert.equal(status, 400, cidr)
      assert.match(refused, /id="cidr-problem"/, cidr)
    }
    const second = await order(account.key, 'residential-basic', 5)
    const there = `/console/plans/${second}/whitelist`
    const taken = await browser.post(there, { cidr: '93.184.216.34' })
    assert.match(taken.html, /on the whitelist of another plan/)
    assert.equal((await browser.post(there, { cidr: '93.184.216.34', move: 'yes' })).to, there)
    assert.equal((await browser.post(there, { remove: whitelist[0].id })).to, there)
    assert.equal((await call(`/plans/${second}/whitelist`)).body.total, 0)
    assert.equal((await call(`/plans/${planId}/whitelist`)).body.total, 0)
  })

  await t.test('has a label of its account', async () => {
    assert.equal((await browser.post(here, { label: 'crawler <1>' })).to, here)
    assert.match((await browser.get(here)).html, /<h1>crawler &lt;1&gt;<\/h1>/)
    assert.equal((await browser.post(here, { label: 'x'.repeat(65) })).status, 400)
    assert.equal((await call(`/plans/${planId}`)).body.label, 'crawler <1>')
  })

  await t.test('is visible to its owner only', async () => {
    const foreign = await order(other.key, 'residential-premium', 1)
    const own = await browser.get(`${here}/top-up`)
    for (const end of ['', '/lines', '/whitelist', '/top-up'])
      assert.equal((await browser.get(`/console/plans/${foreign}${end}`)).status, 404, end)
    for (const [end, form] of [
      ['', { label: 'mine' }],
      ['/lines', { count: '1' }],
      ['/whitelist', { cidr: '93.184.216.35' }],
      ['/top-up', { quantity: '1', expected: '1', form: hiddenField(own, 'form') }],
    ] as const) {
      const { status } = await browser.post(`/console/plans/${foreign}${end}`, form as Record<string, string>)
      assert.equal(status, 404, end)
    }
  })

  await t.test('shows no password to staff', async () => {
    const operator = await staffBrowser(app, ['operator'])
    await operator.post('/console/view', { account: account.accountId, reason: 'ticket 7' })
    const { html, status } = await operator.get(`${here}/lines`)
    assert.equal(status, 200)
    const { password } = (await call(`/plans/${planId}`)).body.connection
    assert.equal(html.includes(password), false)
    assert.match(html, /staff cannot see them/)
  })
})
