import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { consoleBrowser, consoleOrigin, type Page, signedIn } from '../../support/console.ts'
import { httpClient } from '../../support/http.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { type Recorded, record } from '../free-list/support/recorded.ts'

const google = 'AS15169'
const cloudflare = 'AS13335'

/** One live in a network, 120 live ones in another, and a third network where only former ones are. */
const world: readonly Recorded[] = [
  { ip: '8.8.8.8', port: 3128, protocols: ['http', 'https'], anonymity: 'elite', latenciesMs: [200] },
  ...Array.from({ length: 120 }, (_, n) => ({
    ip: `4.4.4.${n + 1}`,
    port: 1080,
    protocols: ['socks5'] as const,
    anonymity: 'anonymous' as const,
    latenciesMs: [300],
  })),
  { ip: '1.1.1.1', port: 8080, state: 'not_answering' } as Recorded,
]

const found = (pages: readonly Page[], pattern: RegExp): readonly string[] =>
  pages.flatMap(({ html }) => [...html.matchAll(pattern)].map(([, text = '']) => text))

const structured = ({ html }: Page) =>
  JSON.parse(/<script type="application\/ld\+json">([^<]*)<\/script>/.exec(html)?.[1] ?? 'null')

test('public pages', async (t) => {
  const app = await testApp(t, { own: 'file' })
  await record(app.core.pool, world)
  const anybody = consoleBrowser(app)
  const origin = consoleOrigin(app)
  const api = httpClient(app.baseUrl, app.document)

  /** Every page of a list, as its links lead. */
  const everyPage = async (path: string): Promise<readonly Page[]> => {
    const pages: Page[] = []
    for (let next: string | undefined = path; next !== undefined; ) {
      const page: Page = await anybody.get(next)
      assert.equal(page.status, 200, next)
      pages.push(page)
      next = /<a href="([^"]+)" rel="next">/.exec(page.html)?.[1]?.replaceAll('&amp;', '&')
    }
    return pages
  }

  await t.test("the list of free proxies equals the API's, in pages by key and by filter", async () => {
    const shown = (pages: readonly Page[]) =>
      found(pages, /<th scope="row"><code class="id">([^<]+)<\/code>/g)
    const listed = async (search: string) =>
      (await api.get(`/api/proxy-list?limit=1000&${search}`)).body.proxies.map(
        ({ ip, port }: { ip: string; port: number }) => `${ip}:${port}`,
      )
    for (const search of ['', 'protocol=socks5', 'anonymity=elite', 'country=us&protocol=http']) {
      const pages = await everyPage(`/free-proxies?${search}`)
      assert.deepEqual(shown(pages), await listed(search), search)
    }
    const whole = await everyPage('/free-proxies')
    assert.equal(whole.length, 2)
    const size = gzipSync(whole[0]?.html ?? '').length
    assert.ok(size < 12_288, `${size} bytes of a page with 100 rows`)
    assert.match((await anybody.get('/free-proxies?country=zz')).html, /No country has that code/)
    for (const before of ['x', '1_2_3_4', "9_9_' or 1_1", '%zz'])
      assert.equal(
        (await anybody.get(`/free-proxies?before=${encodeURIComponent(before)}`)).status,
        200,
        before,
      )
  })

  await t.test('a network shows its record, links to others, and says if nothing is live', async () => {
    const list = await anybody.get('/networks')
    assert.deepEqual(
      found([list], /<th scope="row"><a href="\/networks\/(AS\d+)"/g),
      (await api.get('/api/networks')).body.networks.map(({ asn }: { asn: number }) => `AS${asn}`),
    )
    const live = await anybody.get(`/networks/${google}`)
    assert.match(live.html, /8\.8\.8\.8:3128/)
    assert.doesNotMatch(live.html, /has no live proxy now/)
    const quiet = await anybody.get(`/networks/${cloudflare}`)
    assert.match(quiet.html, /AS13335 has no live proxy now; 1 endpoint that answered before/)
    assert.match(quiet.html, /1\.1\.1\.1:8080/)
    assert.match(quiet.html, /<a href="\/networks\/AS\d+">AS\d+ /, 'it leads to other networks')
    assert.equal((await anybody.get('/networks/13335')).to, `/networks/${cloudflare}`)
    for (const asn of ['AS0', 'AS4294967295', 'x', "AS1'", 'AS99999999999'])
      assert.equal((await anybody.get(`/networks/${encodeURIComponent(asn)}`)).status, 404, asn)
  })

  await t.test('an address is looked up as in the API, and an invalid one is refused', async () => {
    const page = await anybody.get('/ip-lookup?ip=8.8.8.8')
    assert.match(page.html, /<a href="\/networks\/AS15169">AS15169<\/a>/)
    assert.match(page.html, /yes: one answered here/)
    const wrong = await anybody.get(`/ip-lookup?ip=${encodeURIComponent('"><script>1</script>')}`)
    assert.equal(wrong.status, 400)
    assert.doesNotMatch(wrong.html, /<script>1/)
  })

  await t.test('a checker refuses everything but public proxies, and keeps the input', async () => {
    for (const proxies of ['', 'nothing', '10.0.0.1:80', Array(21).fill('8.8.8.8:80').join('\n')]) {
      const { status, html } = await anybody.post('/proxy-checker', { proxies })
      assert.equal(status, 400, proxies.slice(0, 20))
      assert.match(html, /id="proxies-problem"/)
      assert.ok(html.includes(`>\n${proxies}</textarea>`))
    }
  })

  await t.test('prices equal those of the API for customers who are not resellers', async () => {
    const buyer = await app.customer({ email: 'xenia@example.com', cents: 10_000 })
    const { products } = (await app.buyer.get('/api/v1/products', { key: buyer.key })).body
    const list = await anybody.get('/prices')
    assert.deepEqual(
      found([list], /<a href="\/prices\/([^"]+)">/g),
      products.map(({ id }: { id: string }) => id),
    )
    for (const { id, shape, publishedPrice } of products) {
      const page = await anybody.get(`/prices/${id}`)
      assert.equal(page.status, 200, id)
      assert.equal(
        structured(page).offers.lowPrice,
        (publishedPrice.fromCents / 100).toFixed(2),
        `${id} in the words of schema.org`,
      )
      if (shape !== 'addresses') continue
      const { body } = await app.buyer.get(`/api/v1/products/${id}/price-list?country=USA`, {
        key: buyer.key,
      })
      for (const { listCents } of body.lines)
        assert.match(
          page.html,
          new RegExp(`<td class="number"[^>]*>${(listCents / 100).toFixed(2)}</td>`),
          id,
        )
    }
    assert.equal((await anybody.get('/prices/none')).status, 404)
  })

  await t.test(
    'search engines find one address, a title, a description and the source of the data',
    async () => {
      const data = ['/free-proxies', `/networks`, `/networks/${google}`, '/ip-lookup', '/proxy-checker']
      for (const path of ['/', '/prices', '/prices/isp-static', ...data]) {
        const page = await anybody.get(path)
        assert.doesNotMatch(page.html, /noindex/, path)
        assert.ok(page.html.includes(`<link rel="canonical" href="${origin}${path}">`), path)
        assert.match(page.html, /<meta name="description" content="[^"]{40,}">/, path)
        assert.match(page.html, /<title>[^<]+ · [^<]+<\/title>/, path)
        assert.equal(structured(page)['@context'], 'https://schema.org', path)
        if (data.includes(path)) assert.match(page.html, /<a href="https:\/\/db-ip\.com"/, path)
      }
      assert.match((await anybody.get('/console/sign-in')).html, /noindex/)
      const titles = new Set<string>()
      for (const path of data) titles.add(/<title>([^<]+)/.exec((await anybody.get(path)).html)?.[1] ?? '')
      assert.equal(titles.size, data.length, 'each has a title of its own')
    },
  )

  await t.test('the top bar of a visitor has no gap: its menu takes the place of the search', async () => {
    for (const path of ['/', '/prices', '/status']) {
      const { html } = await anybody.get(path)
      assert.match(html, /<header class="top">.*<\/header>\n<nav class="me"/, path)
      const [, style = ''] = /<link rel="stylesheet" href="([^"]+)">/.exec(html) ?? []
      const css = await (await fetch(`${origin}${style}`)).text()
      const [, row = ''] = /@media \(min-width: 60rem\) \{\s+\.shell \{ grid: "([^"]+)"/.exec(css) ?? []
      assert.equal(row, 'top find me')
      assert.match(css, /\.top \+ \.me \{ grid-column: find-start \/ me-end; \}/)
    }
  })

  await t.test('the home page links to products, tools and sign-in', async () => {
    const page = await anybody.get('/')
    const { products } = (
      await app.buyer.get('/api/v1/products', {
        key: (await app.customer({ email: 'zoe@example.com', cents: 10_000 })).key,
      })
    ).body
    const sold = products.filter(({ state }: { state: string }) => state === 'active')
    assert.ok(sold.length > 0)
    for (const { id } of sold) assert.ok(page.html.includes(`href="/prices/${id}"`), id)
    for (const [, path = ''] of page.html.matchAll(/href="(\/[a-z/-]*)"/g))
      assert.ok((await anybody.get(path)).status < 400, path)
    const host = app.baseUrl.replace(/^http:../, '')
    assert.match(
      page.html,
      new RegExp(`API=http://${host}/api/v1\nSITE=http://${host}\nKEY=`),
      'the variables of the calls are set',
    )
  })

  await t.test('the status page says what works, and gives no details of failures', async () => {
    const parts = async () =>
      Object.fromEntries(
        [
          ...(await anybody.get('/status')).html.matchAll(
            /<th scope="row">([^<]+)<\/th><td[^>]*><span class="state \w+">([^<]+)<\/span>/g,
          ),
        ].map(([, name, state]) => [name, state]),
      )
    await until(async () => (await parts()).Gateway === 'works', { what: 'the exits', timeoutMs: 20_000 })
    assert.deepEqual(await parts(), {
      Orders: 'works',
      Gateway: 'works',
      Webhooks: 'works',
      Scrapers: 'works',
      'Free proxies': 'works',
    })
    const answer = await anybody.get('/status.json')
    assert.match(String(answer.headers['content-type']), /^application\/json/)
    const report = JSON.parse(answer.html)
    assert.equal(report.status, 'up')
    assert.deepEqual(
      report.parts.map(({ name, state }: { name: string; state: string }) => [name, state]),
      Object.keys(await parts()).map((name) => [name, 'up']),
    )
    assert.ok(Date.parse(report.runningSince) <= Date.parse(report.checkedAt), answer.html)
    assert.ok((await anybody.get('/status')).html.includes(`datetime="${report.runningSince}"`))
  })

  await t.test('errors under page paths are pages, and API errors are JSON', async () => {
    for (const [method, path, status] of [
      ['POST', '/prices', 405],
      ['GET', '/prices/none', 404],
      ['GET', '/networks/ASnothing/more', 404],
      ['DELETE', '/status', 405],
      ['GET', '/console/nothing', 404],
    ] as const) {
      const answer = await fetch(`${origin}${path}`, { method })
      assert.equal(answer.status, status, path)
      assert.match(String(answer.headers.get('content-type')), /^text\/html/, path)
      assert.match(String(answer.headers.get('content-security-policy')), /script-src 'self'/, path)
    }
    const answer = await fetch(`${origin}/api/v1/nothing`)
    assert.deepEqual(
      [answer.status, answer.headers.get('content-type')],
      [404, 'application/json; charset=utf-8'],
    )
    assert.equal((await fetch(`${origin}/`, { method: 'POST' })).status, 405)
  })

  await t.test(
    'a signed-in visitor sees them in the console frame, and can return to the console',
    async () => {
      const account = await app.customer({ email: 'yara@example.com', cents: 10_000 })
      const browser = await signedIn(app, account.accountId)
      const page = await browser.get('/networks')
      assert.match(page.html, /yara@example\.com/)
      assert.match(page.html, /<a href="\/networks" aria-current="page">/)
      const themed = await browser.post('/console/theme', { theme: 'dark', to: '/networks' })
      assert.equal(themed.to, '/networks')
      for (const to of ['/networksx', '/networks//evil', '/networks/../docs', '/prices\nx'])
        assert.equal((await browser.post('/console/theme', { theme: 'dark', to })).to, '/console', to)
    },
  )

  await t.test('times are in UTC, or in the time zone of the browser', async () => {
    const browser = consoleBrowser(app)
    const page = '/console/times'
    const utc = await browser.get(`${page}?back=/networks`)
    assert.match(utc.html, /<time datetime="[^"]+Z">\d{4}-\d\d-\d\d \d\d:\d\d UTC<\/time>/)
    assert.match(
      utc.html,
      /action="\/console\/times"[^>]*>\s*<input type="hidden" name="form" value="[^"]+">\s*<input type="hidden" name="to" value="\/networks">/,
    )
    assert.equal((await browser.post(page, { zone: 'Asia/Tokyo', to: '/networks' })).to, '/networks')
    const said = await browser.get(page)
    assert.match(said.html, /Times are in Asia\/Tokyo: [^<]* UTC\+9\./)
    assert.match(said.html, /<time datetime="[^"]+Z">\d{4}-\d\d-\d\d \d\d:\d\d UTC\+9<\/time>/)
    assert.match(said.html, /value="Asia\/Tokyo" selected/)
    assert.match(said.html, />Times in Asia\/Tokyo<\/a>/)
    for (const zone of ['UTC', 'Asia/Nowhere', '"><script>x', '']) {
      await browser.post(page, { zone: 'Asia/Tokyo', to: page })
      assert.equal((await browser.post(page, { zone, to: '//evil.example' })).to, '/console', zone)
      assert.match((await browser.get(page)).html, />Times in UTC<\/a>/, zone)
    }
    browser.cookies.set('__Host-farebox_zone', '<script>')
    assert.doesNotMatch((await browser.get(page)).html, /<script>/)
  })
})
