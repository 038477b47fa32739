import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { html } from '../../src/http/docs/html.ts'
import { jsonView } from '../../src/http/docs/json-view.ts'
import { markdown } from '../../src/http/docs/markdown.ts'
import { errorCodes } from '../../src/http/error-table.ts'
import { documentationRoutes } from '../../src/http/service-routes.ts'
import { sampleRoutes, sampleServer } from './sample.ts'

const inner = (page: string, tag: string): readonly string[] =>
  [...page.matchAll(new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`, 'g'))].map(([, text]) => text ?? '')

describe('The documentation page', () => {
  test('loads nothing from anywhere, under a policy that lets only its own style and script run', async (t) => {
    const { baseUrl } = await sampleServer(t, {
      routes: [...sampleRoutes, ...documentationRoutes(sampleRoutes)],
    })
    const response = await fetch(`${baseUrl}/docs`)
    const page = await response.text()
    assert.match(response.headers.get('content-type') ?? '', /^text\/html/)
    assert.ok(!/<(link|img|iframe|object|embed)\b|\bsrc=|@import|url\(|\bon[a-z]+=|\sstyle=/i.test(page))
    const policy = response.headers.get('content-security-policy') ?? ''
    assert.match(policy, /^default-src 'none'; /)
    for (const tag of ['style', 'script']) {
      const [text, ...more] = inner(page, tag)
      assert.deepEqual(more, [])
      assert.ok(policy.includes(`${tag}-src 'sha256-${createHash('sha256').update(text!).digest('base64')}'`))
    }
  })

  test('shows every operation and every error code, and each link inside it leads somewhere', async (t) => {
    const { baseUrl } = await sampleServer(t, {
      routes: [...sampleRoutes, ...documentationRoutes(sampleRoutes)],
    })
    const page = await (await fetch(`${baseUrl}/docs`)).text()
    for (const { operationId } of sampleRoutes) assert.ok(page.includes(`id="${operationId}"`), operationId)
    for (const code of errorCodes) assert.ok(page.includes(`id="error-${code}"`), code)
    const ids = new Set([...page.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id))
    for (const [, target] of page.matchAll(/href="#([^"]+)"/g)) assert.ok(ids.has(target!), target)
  })

  test('escapes whatever stands in a declaration', () => {
    const nasty = `<script>alert("1")</script>`
    for (const { html: text } of [
      html`<b>${nasty}</b>`,
      markdown(`\`${nasty}\``),
      jsonView({ [nasty]: nasty }),
    ])
      assert.ok(!text.includes('<script'), text)
  })
})
