import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { describe, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { z } from 'zod'
import { paidPageRoute, paidPath } from '../../../src/features/deposits/routes.ts'
import { guideView } from '../../../src/platform/api-docs/guides.ts'
import { documentationRoutes } from '../../../src/platform/api-docs/routes.ts'
import { jsonView, markdown } from '../../../src/platform/api-docs/schema-view.ts'
import { errorCodes } from '../../../src/platform/http/errors.ts'
import { route } from '../../../src/platform/http/route.ts'
import { html } from '../../../src/platform/ui/html.ts'
import { sampleRoutes, sampleServer } from '../http/sample.ts'

const hash = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

const inner = (page: string, tag: string): readonly string[] =>
  [...page.matchAll(new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`, 'g'))].map(([, text]) => text ?? '')

/** What makes a page ask for something else: it works offline without any of it. */
const loads = /<(link|img|iframe|object|embed)\b|\bsrc=|@import|url\(|\bon[a-z]+=|\sstyle=/i

describe('The page for payers', () => {
  test('says what to do without personal data, loads nothing, and runs no script', async (t) => {
    const { baseUrl } = await sampleServer(t, { routes: [paidPageRoute] })
    const response = await fetch(`${baseUrl}${paidPath}?session_id=cs_1`)
    const page = await response.text()
    assert.equal(response.status, 200)
    assert.match(response.headers.get('content-type') ?? '', /^text\/html/)
    assert.match(page, /your payment is being confirmed[\s\S]*Close this page, or go back to the shop/)
    assert.doesNotMatch(page, /<script|session_id|cs_1|Farebox/)
    assert.doesNotMatch(page, loads)
    const [style, ...more] = inner(page, 'style')
    assert.deepEqual(more, [])
    assert.equal(
      response.headers.get('content-security-policy'),
      `default-src 'none'; style-src ${hash(style!)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    )
    assert.deepEqual(
      ['x-content-type-options', 'x-frame-options', 'referrer-policy'].map((name) =>
        response.headers.get(name),
      ),
      ['nosniff', 'DENY', 'no-referrer'],
    )
  })
})

describe('Documents that are the same for all readers', () => {
  const routes = [...sampleRoutes, ...documentationRoutes(sampleRoutes), paidPageRoute]
  /** As the bytes come: `fetch` would unpack them. */
  const ask = async (url: string, headers: Record<string, string> = {}) => {
    const [response] = (await once(get(url, { headers }), 'response')) as [IncomingMessage]
    const bytes = Buffer.concat(await response.toArray())
    return { status: response.statusCode, headers: response.headers, bytes }
  }

  for (const path of ['/docs', '/openapi.json', paidPath])
    test(`are revalidated and not sent again to a client that has them: ${path}`, async (t) => {
      const { baseUrl } = await sampleServer(t, { routes })
      const url = `${baseUrl}${path}`
      const plain = await ask(url)
      assert.deepEqual([plain.status, plain.headers['content-encoding']], [200, undefined])
      assert.equal(plain.headers['cache-control'], 'no-cache')
      assert.equal(plain.headers.vary, 'accept-encoding')
      const etag = plain.headers.etag!
      assert.match(etag, /^W\/"[\w-]+"$/)
      for (const held of [etag, etag.slice(2), `"other", ${etag}`, '*']) {
        const same = await ask(url, { 'if-none-match': held })
        assert.deepEqual([same.status, same.bytes.length, same.headers.etag], [304, 0, etag], held)
        assert.equal(same.headers['content-security-policy'], plain.headers['content-security-policy'])
      }
      for (const held of ['', '"other"', 'W/', etag.slice(0, -2)])
        assert.equal((await ask(url, { 'if-none-match': held })).status, 200, held)
      for (const taken of ['gzip', 'deflate, GZIP;q=0.5', 'br;q=1.0, gzip']) {
        const packed = await ask(url, { 'accept-encoding': taken })
        assert.deepEqual([packed.headers['content-encoding'], packed.headers.etag], ['gzip', etag], taken)
        assert.deepEqual(gunzipSync(packed.bytes), plain.bytes)
        assert.equal(packed.headers['content-length'], String(packed.bytes.length))
        assert.equal(packed.headers['content-type'], plain.headers['content-type'])
      }
      for (const refused of ['identity', 'gzip;q=0', 'gzip; q=0.00', 'x-gzip2'])
        assert.deepEqual((await ask(url, { 'accept-encoding': refused })).bytes, plain.bytes, refused)
    })
})

describe('The documentation page', () => {
  test('loads nothing from elsewhere, with a policy that allows only its own style and script', async (t) => {
    const { baseUrl } = await sampleServer(t, {
      routes: [...sampleRoutes, ...documentationRoutes(sampleRoutes)],
    })
    const response = await fetch(`${baseUrl}/docs`)
    const page = await response.text()
    assert.match(response.headers.get('content-type') ?? '', /^text\/html/)
    assert.doesNotMatch(page, loads)
    const policy = response.headers.get('content-security-policy') ?? ''
    assert.match(policy, /^default-src 'none'; /)
    for (const tag of ['style', 'script']) {
      const [text, ...more] = inner(page, tag)
      assert.deepEqual(more, [])
      assert.ok(policy.includes(`${tag}-src ${hash(text!)}`))
    }
  })

  test('shows every operation and every error code, and each internal link works', async (t) => {
    const { baseUrl } = await sampleServer(t, {
      routes: [...sampleRoutes, ...documentationRoutes(sampleRoutes)],
    })
    const page = await (await fetch(`${baseUrl}/docs`)).text()
    for (const { operationId } of sampleRoutes) assert.ok(page.includes(`id="${operationId}"`), operationId)
    for (const code of errorCodes) assert.ok(page.includes(`id="error-${code}"`), code)
    const ids = new Set([...page.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id))
    for (const [, target] of page.matchAll(/href="#([^"]+)"/g)) assert.ok(ids.has(target!), target)
  })

  test('shows words and parts where they are used, and links to the shorter document', async (t) => {
    const words = route({
      ...sampleRoutes[0]!,
      path: '/words',
      operationId: 'sendWords',
      body: z.strictObject({
        size: z.enum(['small', 'large']),
        boxes: z.array(z.strictObject({ depthCm: z.int() })),
      }),
      examples: {},
    } as never)
    const { baseUrl } = await sampleServer(t, { routes: documentationRoutes([words]) })
    const page = await (await fetch(`${baseUrl}/docs`)).text()
    const shown = '<code>&quot;small&quot;</code> | <code>&quot;large&quot;</code>'
    assert.equal(page.split(shown).length, 4, 'in the body, in its schema and in the enumeration')
    const ofParts = page.split('<code>boxes.<wbr>depthCm</code>')
    assert.equal(ofParts.length, 3, 'in the body and in its schema')
    assert.match(page, /href="\/openapi-core\.json"/)
  })

  test('wraps names that are wider than a phone', async (t) => {
    const { baseUrl } = await sampleServer(t, {
      routes: [...sampleRoutes, ...documentationRoutes(sampleRoutes)],
    })
    const [style] = inner(await (await fetch(`${baseUrl}/docs`)).text(), 'style')
    assert.match(style!, /^h1, h2, h3 \{[^}]*overflow-wrap: anywhere/m)
    // `anywhere` would let a column of a table be narrower than its words, and break them all.
    assert.match(style!, /^code \{[^}]*overflow-wrap: break-word/m)
    // A code that fits a line is on one line, whatever hyphens it contains.
    assert.match(style!, /^code \{[^}]*display: inline-block; max-width: 100%/m)
    assert.match(style!, /\.errors tbody th code \{ white-space: nowrap; \}/)
    assert.match(style!, /^@media \(max-width: 820px\) \{[^\n]*\.fields th, \.fields td \{ display: block;/m)
    // The header is as wide as the narrowest phones only without it.
    assert.match(style!, /^@media \(max-width: 384px\) \{[^\n]*\.version \{ display: none; \}/m)
  })

  test('has commands that a shell accepts completely, each with a copy button for the complete command', async (t) => {
    const { baseUrl } = await sampleServer(t, { routes: documentationRoutes(sampleRoutes) })
    const page = await (await fetch(`${baseUrl}/docs`)).text()
    const samples = [...page.matchAll(/<div class="sample">([\s\S]*?)<\/div>/g)].map(
      ([, sample]) => sample ?? '',
    )
    assert.ok(samples.length > sampleRoutes.length / 2)
    assert.equal(page.match(/class="copy"/g)?.length, samples.length)
    for (const sample of samples) {
      const [code, ...more] = [...sample.matchAll(/<code>([\s\S]*?)<\/code>/g)].map(([, text]) => text ?? '')
      assert.deepEqual(more, [], 'the button copies the one code beside it')
      const command = code!
        .replaceAll(/<\/?span[^>]*>/g, '')
        .replaceAll('&#39;', "'")
        .replaceAll('&quot;', '"')
        .replaceAll('&lt;', '<')
        .replaceAll('&gt;', '>')
        .replaceAll('&amp;', '&')
      assert.match(command, /^(curl|bin\/farebox|export KEY=)/)
      assert.equal(spawnSync('sh', ['-n'], { input: command }).status, 0, command)
      assert.doesNotMatch(command, /uuidgen/)
    }
  })

  test('explains how to get a key, and links to guides that are served', async (t) => {
    const { baseUrl } = await sampleServer(t, { routes: documentationRoutes(sampleRoutes) })
    const page = await (await fetch(`${baseUrl}/docs`)).text()
    assert.match(page, /<h2 id="start">Start<\/h2>[\s\S]*bin\/farebox keys create --account/)
    const links = [...page.matchAll(/href="(\/docs\/guides\/[\w-]+)"/g)].map(([, path]) => path ?? '')
    const guides = [
      'quickstart',
      'concepts',
      'api',
      'proxy-lines',
      'webhooks',
      'subscriptions',
      'scrapers',
      'resellers',
      'migrate-from-another-panel',
      'free-tools',
      'run',
      'catalog',
      'exports',
      'periods',
      'seals',
    ]
    assert.deepEqual(
      links,
      guides.map((name) => `/docs/guides/${name}`),
    )
    const ids = new Map<string, ReadonlySet<string>>()
    const pages = new Map<string, string>()
    for (const path of links) {
      const response = await fetch(`${baseUrl}${path}`)
      assert.equal(response.status, 200, path)
      const text = await response.text()
      pages.set(path, text)
      ids.set(path, new Set([...text.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id ?? '')))
      const [style, ...more] = inner(text, 'style')
      assert.deepEqual(more, [])
      assert.ok(response.headers.get('content-security-policy')?.includes(`style-src ${hash(style!)}`))
      assert.doesNotMatch(text, loads)
      assert.doesNotMatch(text, /<script/)
      // Markdown left outside of code was not rendered.
      const prose = text.slice(text.indexOf('<main')).replaceAll(/<(pre|code)>[\s\S]*?<\/\1>/g, '')
      assert.doesNotMatch(prose, /\*\*|```|\]\(|^\s*\||^#+ /m, path)
    }
    for (const [path, text] of pages)
      for (const [, target = ''] of text.matchAll(/href="([^"]+)"/g)) {
        if (target.startsWith('https://')) continue
        const [to = '', anchor] = target.split('#')
        const landed = to === '' ? path : to
        assert.ok(landed === '/docs' || ids.has(landed), `${path} → ${target}`)
        if (anchor) assert.ok(ids.get(landed)?.has(anchor), `${path} → ${target}`)
      }
  })

  test('escapes every text of a declaration', () => {
    const nasty = `<script>alert("1")</script>`
    for (const { html: text } of [
      html`<b>${nasty}</b>`,
      markdown(`\`${nasty}\``),
      jsonView({ [nasty]: nasty }),
      guideView(
        `# ${nasty}\n\n${nasty} [${nasty}](#x"onclick=)\n\n    ${nasty}\n\n| ${nasty} |\n|---|\n| ${nasty} |`,
        () => null,
      ),
    ])
      assert.ok(!text.includes('<script'), text)
  })
})
