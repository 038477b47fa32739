import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { scrapeIdOf } from '../../../src/kernel/ids.ts'
import { type Browser, hiddenField, type Page, sendBatch, signedIn } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { startReceiver, status } from '../webhooks/receiver.ts'

/** As a page makes one for its form. */
const newKey = (): string => randomBytes(32).toString('base64url')

/** Sends a form of a page with its hidden key. */
const send = async (
  browser: Browser,
  path: string,
  fields: Readonly<Record<string, string | readonly string[]>>,
): Promise<Page> => {
  const form = hiddenField(await browser.get(path), 'form')
  return browser.post(path, { form, ...fields })
}

const links = ({ html }: Page, pattern: RegExp): readonly string[] =>
  [...html.matchAll(pattern)].map(([, text = '']) => text)

test('resources of an account', async (t) => {
  const app = await testApp(t, {
    own: true,
    settings: { FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on', FAREBOX_GATEWAY_CHECK_URL: 'http://127.0.0.1:9/ip' },
  })
  const account = await app.customer({ email: 'vera@example.com', cents: 500_000 })
  const browser = await signedIn(app, account.accountId)
  const other = await app.customer({ email: 'will@example.com', cents: 10_000 })
  const otherBrowser = await signedIn(app, other.accountId)
  const api = (path: string) => app.buyer.get(`/api/v1${path}`, { key: account.key })
  const order = async (key: string, body: object) =>
    (
      await app.buyer.post('/api/v1/orders', body, {
        key: account.key,
        headers: { 'Idempotency-Key': key },
      })
    ).body
  const { log } = app.core
  /** The actors on a stream, by event type. */
  const actors = async (stream: string): Promise<readonly string[]> => {
    const found: string[] = []
    for await (const { type, metadata } of log.readStream(stream as never))
      found.push(`${type} ${JSON.parse(metadata).actor.kind}`)
    return found
  }

  await t.test('an endpoint is registered, pinged, changed, rotated, redelivered and deleted', async (t) => {
    const receiver = await startReceiver(t)
    receiver.answer((response) => {
      response.writeHead(200)
      response.end('<script>alert(1)</script>')
    })
    const made = await send(browser, '/console/webhooks/new', {
      url: receiver.url,
      events: ['order.fulfilled', 'ping'],
    })
    const secret = /<code class="secret">(whsec_[^<]+)<\/code>/.exec(made.html)?.[1] ?? ''
    assert.notEqual(secret, '', made.html)
    const [id = ''] = links(await browser.get('/console/webhooks'), /\/console\/webhooks\/(whs_[0-9a-f]+)"/g)
    const path = `/console/webhooks/${id}`
    assert.deepEqual((await api(`/webhooks/${id}`)).body.events, ['order.fulfilled', 'ping'])
    assert.doesNotMatch((await browser.get(path)).html, /whsec_/, 'the secret is shown once')

    assert.equal((await send(browser, path, { do: 'ping' })).to, path)
    let delivered: Page = await browser.get(path)
    await until(
      async () => {
        delivered = await browser.get(path)
        return delivered.html.includes('answered 200')
      },
      { what: 'the ping to be shown as delivered' },
    )
    const [delivery = ''] = links(delivered, /\/deliveries\/(dlv_[0-9a-f]+)"/g)
    const one = await browser.get(`${path}/deliveries/${delivery}`)
    assert.match(one.html, /&lt;script&gt;alert\(1\)&lt;\/script&gt;/, 'what a receiver says is escaped')
    assert.doesNotMatch(one.html, /<script>/)
    assert.equal((await send(browser, `${path}/deliveries/${delivery}`, {})).to, path)
    await until(() => receiver.received.length === 2, { what: 'the ping to be sent again' })
    assert.deepEqual(
      receiver.received.map(({ headers }) => headers['webhook-id']),
      [delivery, delivery],
    )

    receiver.answer(status(500))
    await send(browser, path, { do: 'ping' })
    await until(async () => (await browser.get(`${path}?status=pending`)).html.includes('answered 500'), {
      what: 'the failed ping to wait',
    })
    receiver.answer(status(200))
    assert.equal((await send(browser, `${path}/redeliver`, { since: 'yesterday' })).status, 400)
    const again = await send(browser, `${path}/redeliver`, {
      since: new Date(0).toISOString().slice(0, 10),
    })
    assert.equal(again.to, path)
    assert.match((await browser.get(path)).html, /1 delivery sent again/)
    await until(() => receiver.received.length >= 4, { what: 'what was missed to be sent again' })

    assert.equal((await send(browser, `${path}/change`, { url: receiver.url, events: [] })).status, 400)
    await send(browser, `${path}/change`, { url: receiver.url, events: ['order.refunded'] })
    assert.deepEqual((await api(`/webhooks/${id}`)).body.events, ['order.refunded'])
    const rotated = await send(browser, `${path}/secret`, {})
    const next = /<code class="secret">(whsec_[^<]+)<\/code>/.exec(rotated.html)?.[1]
    assert.ok(next !== undefined && next !== secret)

    for (const [what, is] of [
      ['disable', 'disabled'],
      ['enable', 'active'],
    ] as const) {
      await send(browser, path, { do: what })
      assert.equal((await api(`/webhooks/${id}`)).body.status, is)
    }
    assert.equal((await send(browser, path, { do: 'nothing' })).status, 400)

    for (const end of ['', '/change', '/secret', '/redeliver', '/delete', `/deliveries/${delivery}`])
      assert.equal((await otherBrowser.get(path + end)).status, 404, end)
    for (const end of ['', '/change', '/secret', '/redeliver', '/delete', `/deliveries/${delivery}`]) {
      const sent = { form: newKey(), do: 'ping', url: receiver.url, events: ['ping'], since: '2026-01-01' }
      assert.equal((await otherBrowser.post(path + end, sent)).status, 404, end)
    }
    assert.equal((await api(`/webhooks/${id}`)).status, 200)
    assert.equal((await browser.post(`${path}/delete`)).to, '/console/webhooks')
    assert.equal((await api(`/webhooks/${id}`)).status, 404)
    assert.deepEqual(
      new Set(await actors(`webhooks-${account.accountId}`)),
      new Set([
        'EndpointRegistered session',
        'EndpointChanged session',
        'SecretRotated session',
        'EndpointRemoved session',
      ]),
    )
  })

  await t.test('a forbidden URL is reported at its field, and the input stays', async () => {
    for (const url of ['', 'ftp://example.com', 'https://10.0.0.1/x', '"><b>'] as const) {
      const answer = await send(browser, '/console/webhooks/new', { url, events: ['ping'] })
      assert.equal(answer.status, 400, url)
      assert.match(answer.html, /id="url-problem"/, url)
      assert.doesNotMatch(answer.html, /"><b>/)
      assert.match(answer.html, /value="ping" checked/)
    }
    assert.equal((await api('/webhooks')).body.total, 0)
  })

  await t.test('deliveries page by key, each once', async (t) => {
    const receiver = await startReceiver(t)
    const hook = await app.buyer.post(
      '/api/v1/webhooks',
      { url: receiver.url, events: ['ping'] },
      { key: account.key },
    )
    const path = `/console/webhooks/${hook.body.id}`
    await Promise.all(
      Array.from({ length: 60 }, () =>
        app.buyer.post(`/api/v1/webhooks/${hook.body.id}/test`, undefined, { key: account.key }),
      ),
    )
    const seen: string[] = []
    let pages = 0
    for (let next: string | undefined = path; next !== undefined; pages += 1) {
      const page: Page = await browser.get(next)
      seen.push(...links(page, /\/deliveries\/(dlv_[0-9a-f]+)"/g))
      next = links(page, /<a href="([^"]+)" rel="next">/g)[0]?.replaceAll('&amp;', '&')
    }
    assert.equal(pages, 2)
    assert.equal(new Set(seen).size, 60)
    assert.equal(seen.length, 60)
    for (const before of ['x', "2026-11-21T02:30:00.000Z_dlv_' or 1=1", '%00'])
      assert.equal((await browser.get(`${path}?before=${encodeURIComponent(before)}`)).status, 200, before)
  })

  await t.test('addresses are listed, filtered, labelled, checked and replaced', async () => {
    const meta = { country: 'USA', period_days: 30 }
    const placed = await order('isp', { product_id: 'isp-static', quantity: 3, fulfillment_meta: meta })
    const [id = ''] = placed.proxyIds as readonly string[]
    const path = `/console/addresses/${id}`
    const list = await browser.get('/console/addresses')
    assert.deepEqual(
      new Set(links(list, /\/console\/addresses\/(prx_[0-9a-f]+)"/g)),
      new Set(placed.proxyIds),
    )
    assert.match((await browser.get('/console/addresses?family=mobile')).html, /Nothing matches/)
    assert.match((await browser.get('/console/addresses?country=usa&status=running')).html, /prx_/)
    assert.equal((await browser.get('/console/addresses?country=xyz&status=y&before=z')).status, 200)

    const before = (await api(`/proxies/${id}`)).body
    const page = await browser.get(path)
    assert.match(
      page.html,
      new RegExp(`${before.host}:${before.ports.http}:${before.username}:${before.password}`),
    )
    assert.equal((await send(browser, path, { do: 'label', label: '<i>till</i>' })).to, path)
    assert.equal((await api(`/proxies/${id}`)).body.label, '<i>till</i>')
    assert.match((await browser.get(path)).html, /value="&lt;i&gt;till&lt;\/i&gt;"/)
    assert.equal((await send(browser, path, { do: 'label', label: 'x'.repeat(65) })).status, 400)
    const checked = await send(browser, path, { do: 'check' })
    assert.match(checked.html, /No address was seen/)
    assert.equal((await send(browser, path, { do: 'rotate' })).status, 404, 'no line that rotates')

    assert.match((await send(browser, `${path}/replace`, { reason: 'custom' })).html, /id="comment-problem"/)
    const form = hiddenField(await browser.get(`${path}/replace`), 'form')
    const answers = await Promise.all(
      [1, 2, 3].map(() => browser.post(`${path}/replace`, { form, reason: 'not_working' })),
    )
    assert.deepEqual(
      answers.map(({ status, to }) => [status, to]),
      [1, 2, 3].map(() => [303, path]),
    )
    const after = (await api(`/proxies/${id}`)).body
    assert.notEqual(after.ip, before.ip)
    assert.deepEqual([after.password, after.expiresAt], [before.password, before.expiresAt])
    const refused = await send(browser, `${path}/replace`, { reason: 'not_working' })
    assert.match(refused.html, /was replaced before/)
    assert.match((await browser.get(path)).html, new RegExp(`<td[^>]*>${before.ip}</td>`))

    const extension = await browser.get(`${path}/extend`)
    const offered = /value="30" checked> <span>30 days <small>\$([\d.]+)/.exec(extension.html)?.[1]
    const cents = Math.round(Number(offered) * 100)
    const wallet = async () => (await api('/wallet')).body.balanceCents as number
    const had = await wallet()
    const stale = await send(browser, `${path}/extend`, { days: '90', 'price-90': '1' })
    assert.match(stale.html, /value="90" checked/)
    assert.match(stale.html, /Nothing was ordered\. The price of another 90 days is \$[\d.]+, not \$/)
    assert.equal((await send(browser, `${path}/extend`, { days: '31', 'price-31': '1' })).status, 400)
    assert.equal((await send(browser, `${path}/extend`, {})).status, 400)
    assert.equal(await wallet(), had)
    const twice = { form: hiddenField(extension, 'form'), days: '30', 'price-30': String(cents) }
    for (const { to } of await Promise.all([1, 2].map(() => browser.post(`${path}/extend`, twice))))
      assert.equal(to, path)
    assert.equal(await wallet(), had - cents)
    assert.equal(
      Date.parse((await api(`/proxies/${id}`)).body.expiresAt) - Date.parse(after.expiresAt),
      30 * 86_400_000,
    )

    const all = `/console/orders/${(await api(`/proxies/${id}`)).body.orderId}/extend`
    const together = await browser.get(all)
    assert.match(together.html, /Extend 3 rentals/)
    const each = /value="30" checked> <span>30 days <small>\$([\d.]+)/.exec(together.html)?.[1]
    assert.equal(Math.round(Number(each) * 100), 3 * cents)
    const ends = async () =>
      (await api('/proxies')).body.proxies
        .map(({ expiresAt }: { expiresAt: string }) => Date.parse(expiresAt))
        .sort()
    const [first, second, third] = await ends()
    const sent = { form: hiddenField(together, 'form'), days: '30', 'price-30': String(3 * cents) }
    for (const { status } of await Promise.all([1, 2].map(() => browser.post(all, sent))))
      assert.equal(status, 303)
    assert.equal(await wallet(), had - 4 * cents)
    const month = 30 * 86_400_000
    assert.deepEqual(await ends(), [first + month, second + month, third + month])
    assert.equal((await send(browser, all, { days: '30', 'price-30': '1' })).status, 409)
    assert.equal((await otherBrowser.get(all)).status, 404)
    assert.equal((await otherBrowser.post(all, { ...sent, form: newKey() })).status, 404)

    for (const end of ['', '/replace', '/extend']) {
      assert.equal((await otherBrowser.get(path + end)).status, 404)
      const sent = {
        form: newKey(),
        do: 'label',
        label: 'mine',
        reason: 'not_working',
        days: '30',
        'price-30': '1',
      }
      assert.equal((await otherBrowser.post(path + end, sent)).status, 404)
    }
    assert.equal((await api(`/proxies/${id}`)).body.label, '<i>till</i>')
  })

  await t.test('a mobile line that rotates by link is rotated by its button', async () => {
    const meta = { country: 'USA', period_days: 30, rotation_minutes: 0 }
    const placed = await order('mobile', {
      product_id: 'mobile-dedicated',
      quantity: 1,
      fulfillment_meta: meta,
    })
    const path = `/console/addresses/${placed.proxyIds[0]}`
    assert.equal((await send(browser, path, { do: 'rotate' })).to, path)
    assert.equal((await send(browser, path, { do: 'rotate' })).status, 429, 'once in ten seconds')
  })

  await t.test('an order that waits for its payment is shown and canceled', async () => {
    const body = { product_id: 'residential-premium', quantity: 2, method: 'card' }
    const { orderId } = (await app.client.post('/api/v1/orders', body, { key: account.key })).body
    const path = `/console/orders/${orderId}`
    assert.match((await browser.get(path)).html, /Cancel order/)
    assert.equal((await otherBrowser.post(`${path}/cancel`)).status, 404)
    assert.equal((await browser.post(`${path}/cancel`)).to, path)
    const canceled = await api(`/orders/${orderId}`)
    assert.deepEqual([canceled.body.status, canceled.body.cancelReason], ['canceled', 'requested'])
    assert.doesNotMatch((await browser.get(path)).html, /Cancel order/)
    assert.match((await actors(`order-${orderId}`)).join(), /session/)
  })

  await t.test('a subscription is listed, shown and canceled', async () => {
    const started = await app.buyer.post(
      '/api/v1/subscriptions',
      { product_id: 'residential-premium', quantity: 2, interval: 'month' },
      { key: account.key, headers: { 'Idempotency-Key': 'subscribe' } },
    )
    const id = started.body.subscriptionId as string
    assert.match((await browser.get('/console/subscriptions?status=active')).html, new RegExp(id))
    assert.doesNotMatch((await browser.get('/console/subscriptions?status=canceled')).html, new RegExp(id))
    const path = `/console/subscriptions/${id}`
    assert.match((await browser.get(path)).html, /Cancel subscription/)
    for (const end of ['', '/cancel']) assert.equal((await otherBrowser.get(path + end)).status, 404)
    assert.equal((await otherBrowser.post(`${path}/cancel`)).status, 404)
    assert.equal((await browser.post(`${path}/cancel`)).to, path)
    assert.equal((await api(`/subscriptions/${id}`)).body.cancelAtPeriodEnd, true)
    const shown = (await browser.get(path)).html
    assert.match(shown, /ends with its period/)
    assert.doesNotMatch(shown, /Cancel subscription/)
    assert.match((await actors(`subscription-${id}`)).join(), /session/)
  })

  await t.test(
    'a scraper shows its price before and its cost after, and is charged once per request',
    async () => {
      const path = '/console/scrapers/reddit/subreddit'
      const list = await browser.get('/console/scrapers?platform=reddit')
      assert.match(list.html, /href="\/console\/scrapers\/reddit\/subreddit"/)
      assert.doesNotMatch(list.html, /scrapers\/youtube\/video"/)
      const found = await browser.get('/console/scrapers?q=reddit+rules&field=subscribers&price=0.003')
      assert.match(found.html, /href="\/console\/scrapers\/reddit\/subreddit"/)
      assert.doesNotMatch(found.html, /scrapers\/reddit\/search"/)
      assert.match((await browser.get(path)).html, /<code>weekly_active_users<\/code>/)
      assert.equal((await browser.get('/console/scrapers/reddit/nothing')).status, 404)
      const balance = async () =>
        (await api('/wallet/transactions?limit=1')).body.transactions[0].balanceAfterMicros as number
      const price = /Call for \$([\d.]+)/.exec((await browser.get(path)).html)?.[1]
      const before = await balance()

      const dry = await send(browser, path, { do: 'check', 'in-subreddit': ' AskReddit ' })
      assert.match(dry.html, /&quot;subreddit&quot;: &quot;AskReddit&quot;/)
      assert.match(dry.html, /nothing was charged/)
      const wrong = await send(browser, path, { do: 'call', 'in-subreddit': '' })
      assert.equal(wrong.status, 400)
      assert.equal(await balance(), before)

      const form = hiddenField(await browser.get(path), 'form')
      const sent = { form, do: 'call', 'in-subreddit': '<b>AskReddit</b>' }
      const called = await browser.post(path, sent)
      assert.ok(called.html.includes(`$${price} were charged.`), called.html)
      assert.match(called.html, /<pre class="result"/)
      assert.doesNotMatch(called.html, /<b>AskReddit/, 'what was typed and what came are escaped')
      const after = await balance()
      assert.equal(before - after, Math.round(Number(price) * 1_000_000))
      const again = await Promise.all([1, 2].map(() => browser.post(path, sent)))
      for (const { html } of again) assert.match(html, /were charged before, and nothing now/)
      const changed = await browser.post(path, { ...sent, 'in-subreddit': 'node' })
      assert.equal(changed.status, 409)
      assert.match(changed.html, /This form was sent before with other values\./)
      assert.equal(await balance(), after)
      assert.equal(
        (await browser.post(path, { do: 'call', 'in-subreddit': 'x' })).status,
        400,
        'without a key',
      )

      const missing = await send(browser, '/console/scrapers/tiktok/profile', {
        do: 'call',
        'in-handle': 'missing-1',
      })
      assert.match(missing.html, /has no such profile, post or id\. \$[\d.]+ were charged/)
      const failed = await send(browser, '/console/scrapers/tiktok/profile', {
        do: 'call',
        'in-handle': 'html-1',
      })
      assert.equal(failed.status, 409)
      assert.match(failed.html, /Nothing was charged/)

      const id = scrapeIdOf(account.accountId, `console-${form}`)
      assert.deepEqual(await actors(`scrape-${id}`), ['ScrapeStarted session', 'ScrapeFinished session'])
      const usage = await browser.get('/console/scrapers/usage?by=key')
      assert.match(usage.html, /in the console/)
      for (const by of ['day', 'platform', 'scraper', 'nothing&from=x&to=2026-13-01&before=zz'])
        assert.equal((await browser.get(`/console/scrapers/usage?by=${by}`)).status, 200, by)
    },
  )

  await t.test(
    'a batch of scrapes is listed with its progress, and its results are downloaded as a file',
    async () => {
      const root = '/console/scrapers/batches'
      assert.match((await browser.get(root)).html, /There are no batches now/)
      const id = await sendBatch(app, account.accountId, [
        { subreddit: 'AskReddit' },
        { subreddit: '<b>node</b>' },
      ])
      const path = `${root}/${id}`
      const shown = async () => (await browser.get(path)).html
      await until(async () => !/data-runs/.test(await shown()), { what: 'the end of the batch' })
      const html = await shown()
      assert.match(html, /Download 2 results/)
      assert.equal(html.match(/state good">found</g)?.length, 2)
      assert.match(html, new RegExp(`${id}\\.2`))
      const { html: file, headers } = await browser.get(`${path}/results`)
      assert.match(String(headers['content-disposition']), new RegExp(`${id}\\.jsonl`))
      const lines = file
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line))
      assert.deepEqual(
        lines.map(({ requestId }) => requestId),
        [`${id}.1`, `${id}.2`],
      )
      const list = (await browser.get(root)).html
      assert.match(list, new RegExp(`href="${path}"`))
      assert.match(list, />2 of 2</)
      assert.doesNotMatch((await otherBrowser.get(root)).html, new RegExp(id))
      for (const end of ['', '/results']) assert.equal((await otherBrowser.get(path + end)).status, 404)
      assert.equal((await browser.get(`${root}?before=nothing`)).status, 200)
      const { pool } = app.core
      await pool.query('update work.scrape_batches set canceled_at = finished_at where batch_id = $1', [id])
      for (const page of [root, path])
        assert.match((await browser.get(page)).html, /state off">canceled</, page)
    },
  )
})
