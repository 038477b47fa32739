import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { parse } from 'csv-parse/sync'
import { createAssets } from '../../../src/platform/ui/assets.ts'
import { amountText } from '../../../src/platform/ui/text.ts'
import { type Browser, hiddenField, signedIn } from '../../support/console.ts'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** Every page of a list, one after the other, as its links lead. */
const everyPage = async (browser: Browser, path: string): Promise<readonly string[]> => {
  const pages: string[] = []
  for (let next: string | undefined = path; next !== undefined; ) {
    const { html, status } = await browser.get(next)
    assert.equal(status, 200, next)
    pages.push(html)
    next = /<a href="([^"]+)" rel="next">/.exec(html)?.[1]?.replaceAll('&amp;', '&')
  }
  return pages
}

const found = (pages: readonly string[], pattern: RegExp): readonly string[] =>
  pages.flatMap((html) => [...html.matchAll(pattern)].map(([, text = '']) => text))

test('the pages of a customer', async (t) => {
  const app = await testApp(t)
  const account = await app.customer({ email: 'una@example.com', cents: 200_000 })
  const browser = await signedIn(app, account.accountId)
  const api = (path: string) => app.buyer.get(`/api/v1${path}`, { key: account.key })
  const buy = (key: string, body: object) =>
    app.buyer.post('/api/v1/orders', body, { key: account.key, headers: { 'Idempotency-Key': key } })
  await Promise.all(
    Array.from({ length: 120 }, (_, n) =>
      buy(`order-${n}`, { product_id: 'residential-premium', quantity: 1 }),
    ),
  )

  await t.test('lists page by key, and contain every order and every movement once, in order', async () => {
    const orders = await everyPage(browser, '/console/orders')
    assert.equal(orders.length, 3)
    const shown = found(orders, /<a href="\/console\/orders\/(ord_[0-9a-f]{32})"/g)
    const listed: string[] = []
    for (let offset = 0; offset < 120; offset += 100)
      for (const order of (await api(`/orders?limit=100&offset=${offset}`)).body.orders)
        listed.push(order.orderId)
    assert.deepEqual(shown, listed)
    const movements = await everyPage(browser, '/console/transactions')
    assert.equal(
      found(movements, /<th scope="row"[^>]*><a href="\/console\/orders\/(ord_[0-9a-f]{32})">/g).length,
      120,
    )
  })

  await t.test("the balance equals the API's, before and after an order", async () => {
    const balance = async () => (await api('/wallet')).body.balanceCents as number
    const shown = async () =>
      /<p class="figure">\$([\d,.]+)<\/p>/.exec((await browser.get('/console')).html)?.[1]
    assert.equal(await shown(), amountText(await balance()))
    await buy('after', { product_id: 'residential-premium', quantity: 3 })
    assert.equal(await shown(), amountText(await balance()))
  })

  await t.test('the file contains every movement with the figures of the API, and no formula', async () => {
    await operate(
      [
        ...['wallet', 'credit', '--kind=payment', '--account', account.accountId],
        ...['--cents', '7', '--reference', '=HYPERLINK("x")'],
      ],
      app.env,
    )
    const { html: csv, headers } = await browser.get('/console/transactions?format=csv')
    assert.match(String(headers['content-type']), /^text\/csv/)
    assert.match(
      String(headers['content-disposition']),
      /attachment; filename="transactions-\d{4}-\d\d-\d\d\.csv"/,
    )
    const lines: Record<string, string>[] = parse(csv, { columns: true, bom: true })
    const { total, transactions } = (await api('/wallet/transactions?limit=100')).body
    assert.equal(lines.length, total)
    assert.equal(
      lines.reduce((sum, line) => sum + Math.round(Number(line['Amount, USD']) * 1_000_000), 0),
      (await api('/wallet')).body.balanceCents * 10_000,
    )
    assert.equal(lines[0]?.['Transaction id'], transactions[0].transactionId)
    assert.match(csv, /'=HYPERLINK/)
  })

  await t.test(
    'a notice that is marked as read here is read in the API, and for this account only',
    async () => {
      await operate(
        ['notices', 'publish', '--kind', 'INFO', '--title', '<i>News</i>', '--body', 'Line one.\nLine two.'],
        app.env,
      )
      // The read table has it a moment after the command.
      const { html } = await until(async () => {
        const page = await browser.get('/console/notices')
        return page.html.includes('<h2>&lt;i&gt;News&lt;/i&gt;</h2>') ? page : null
      })
      const id = /name="read" value="(ntc_[0-9a-f]+)"/.exec(html)?.[1] ?? ''
      assert.equal((await api('/announcements')).body.announcements[0].unread, true)
      assert.equal((await browser.post('/console/notices', { read: id })).status, 303)
      assert.equal((await api('/announcements')).body.announcements[0].unread, false)
      assert.equal((await app.buyer.get('/api/v1/announcements')).body.announcements[0].unread, true)
      assert.doesNotMatch((await browser.get('/console/notices')).html, /Mark as read/)
    },
  )

  await t.test('an order shows its history and the actor of each step', async () => {
    const order = await buy('history', { product_id: 'residential-premium', quantity: 2 })
    const { html } = await browser.get(`/console/orders/${order.body.orderId}`)
    assert.match(html, /Ordered, paid from the wallet and delivered/)
    assert.match(html, /by key key_[0-9a-f]{32}/)
    const plans = await browser.get('/console/plans')
    assert.match(plans.html, new RegExp(`href="/console/plans/${order.body.planId}"`))
  })

  await t.test(
    'a key is created as requested, capped, rotated and revoked; the log names the session',
    async () => {
      const form = hiddenField(await browser.get('/console/keys/new'), 'form')
      const made = await browser.post('/console/keys/new', {
        form,
        name: 'till',
        scopes: ['buy', 'scrape'],
        cap: '1,000.5',
        covers: 'everything',
        days: '30',
        networks: '127.0.0.0/8, 2001:db8::/32',
      })
      const key = /<code class="secret">(fbx_\w+)<\/code>/.exec(made.html)?.[1] ?? ''
      const me = await app.buyer.get('/api/v1/me', { key })
      assert.deepEqual([me.body.scopes, me.body.dailySpendCapCents], [['buy', 'scrape'], 100_050])
      const id =
        /<a href="\/console\/keys\/(key_[0-9a-f]+)">till<\/a>/.exec(
          (await browser.get('/console/keys')).html,
        )?.[1] ?? ''
      assert.equal(
        (await browser.post(`/console/keys/${id}/cap`, { cap: '12.345', covers: 'orders' })).status,
        400,
      )
      assert.equal(
        (await browser.post(`/console/keys/${id}/cap`, { cap: '12.34', covers: 'orders' })).status,
        303,
      )
      assert.equal((await app.buyer.get('/api/v1/me', { key })).body.dailySpendCapCents, 1_234)
      const rollForm = hiddenField(await browser.get(`/console/keys/${id}/roll`), 'form')
      const rolled = await browser.post(`/console/keys/${id}/roll`, { form: rollForm, overlap: '0' })
      const next = /<code class="secret">(fbx_\w+)<\/code>/.exec(rolled.html)?.[1] ?? ''
      assert.equal((await app.buyer.get('/api/v1/me', { key: next })).status, 200)
      const nextId =
        /<a href="\/console\/keys\/(key_[0-9a-f]+)">till<\/a>/.exec(
          (await browser.get('/console/keys')).html,
        )?.[1] ?? ''
      assert.equal((await browser.post(`/console/keys/${nextId}/revoke`)).status, 303)
      const events: { type: string; metadata: string }[] = []
      for await (const event of app.core.log.readStream(`account-${account.accountId}` as never))
        events.push(event)
      const acts = events.filter(({ metadata }) => JSON.parse(metadata).actor.kind === 'session')
      assert.deepEqual(
        acts.map(({ type }) => type),
        ['KeyIssued', 'KeyCapped', 'KeyIssued', 'KeyExpirySet', 'KeyRevoked'],
      )
    },
  )

  await t.test('bad input is reported at its field, keeps the input, and creates nothing', async () => {
    const wrong: Readonly<Record<string, readonly [string, string]>> = {
      cap: ['1.234', 'dollars'],
      days: ['0', 'whole days'],
      networks: ['300.0.0.1', '300'],
      name: ['x'.repeat(65), 'characters'],
    }
    for (const [field, [typed, says]] of Object.entries(wrong)) {
      const form = hiddenField(await browser.get('/console/keys/new'), 'form')
      const { status, html } = await browser.post('/console/keys/new', {
        form,
        scopes: 'buy',
        covers: 'orders',
        [field]: typed,
      })
      assert.equal(status, 400, field)
      assert.match(html, new RegExp(`id="${field}-problem">[^<]*${says}`), field)
      assert.match(html, new RegExp(`name="${field}"[^>]*value="${typed}"`), field)
    }
    const form = hiddenField(await browser.get('/console/keys/new'), 'form')
    assert.match((await browser.post('/console/keys/new', { form })).html, /Tick what the key may do/)
    for (const before of ['x', '9'.repeat(30), "2026-11-21T02:30:00.000Z_ord_' or 1=1", '%00'])
      for (const list of ['orders', 'plans', 'transactions'])
        assert.equal(
          (await browser.get(`/console/${list}?before=${encodeURIComponent(before)}`)).status,
          200,
          before,
        )
  })

  await t.test('a debt is on the home page, on the page of top-ups and beside its transaction', async () => {
    const debtor = await app.customer({ cents: 500 })
    const { env } = app
    const adjust = [
      'wallet',
      'adjust',
      '--account',
      debtor.accountId,
      '--cents=-2500',
      '--reference',
      'stripe re_1',
    ]
    const adjusted = await operate([...adjust, '--reason', 'deposit_refund', '--gateway', 'stripe'], env)
    assert.equal(adjusted.code, 0, adjusted.err)
    const debtorBrowser = await signedIn(app, debtor.accountId)
    for (const path of ['/console', '/console/top-up'])
      assert.match((await debtorBrowser.get(path)).html, /You owe \$20\.00 after a refund or a dispute/)
    const { html: csv } = await debtorBrowser.get('/console/transactions?format=csv')
    const [refund] = parse(csv, { columns: true, bom: true }) as Record<string, string>[]
    assert.deepEqual(
      ['Amount, USD', 'Debt, USD', 'Balance, USD'].map((column) => refund?.[column]),
      ['-25.00', '20.00', '0.00'],
    )
    for (const path of ['/console', '/console/top-up'])
      assert.doesNotMatch((await browser.get(path)).html, /You owe/)
  })

  await t.test('a page loads few bytes', async () => {
    const assets = createAssets()
    const sizeOf = (path: string) => gzipSync(assets.find(path.split('/').at(-1) ?? '')?.text ?? '').length
    assert.ok(sizeOf(assets.style) < 12_288, `${sizeOf(assets.style)} bytes of style`)
    assert.ok(sizeOf(assets.island('passkey')) < 4_096, `${sizeOf(assets.island('passkey'))} bytes of script`)
    const page = gzipSync((await browser.get('/console/orders')).html).length
    assert.ok(page < 12_288, `${page} bytes of a page with 50 rows`)
    const served = await browser.get(assets.style)
    assert.match(String(served.headers['cache-control']), /immutable/)
    assert.match(String(served.headers['content-type']), /^text\/css/)
    assert.equal((await browser.get('/console/assets/console-0000000000000000.css')).status, 404)
  })
})
