import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { base, colours, pageOf } from '../../../src/platform/ui/bare-page.ts'
import { html } from '../../../src/platform/ui/html.ts'

const hash = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`
const style = `${colours()}${base}`

describe('A page', () => {
  test('allows its own style and script, and no external request', () => {
    const { html: text, policy } = pageOf({ title: 'Keys', style, script: 'go()', body: html`<main></main>` })
    assert.ok(text.includes(`<style>${style}</style>`) && text.includes('<script>go()</script>'))
    assert.match(policy, /^default-src 'none'; /)
    assert.ok(policy.includes(`style-src ${hash(style)}; script-src ${hash('go()')};`))
  })

  test('without a script allows none', () => {
    const { html: text, policy } = pageOf({ title: 'Keys', style, body: html`<main></main>` })
    assert.ok(!text.includes('<script') && !policy.includes('script-src'))
  })

  test('escapes its title and every value of a view', () => {
    const name = '<img src=x onerror="go()">'
    const { html: text } = pageOf({
      title: name,
      style,
      body: html`<p title="${name}">${[html`<b>${name}</b>`]}</p>`,
    })
    assert.ok(!text.includes('<img') && text.includes('&lt;img src=x onerror=&quot;go()&quot;&gt;'))
  })

  test('is hidden from search engines on request', () => {
    const noindex = '<meta name="robots" content="noindex">'
    const page = { title: 'Paid', style, body: html`<main></main>` }
    assert.ok(pageOf({ ...page, indexed: false }).html.includes(noindex))
    assert.ok(!pageOf(page).html.includes(noindex))
  })
})
