import { createHash } from 'node:crypto'
import { fixedText } from '../http/answer.ts'
import { onDemand } from '../http/json-schema.ts'
import { type Route, route } from '../http/route.ts'
import { type Html, html } from './html.ts'

/** The route of a page that is the same for every client. The page is created at its first request. */
export const pageRoute = (page: {
  readonly path: string
  readonly operationId: string
  readonly summary: string
  /** Called by the first request. */
  readonly page: () => Promise<Page>
}): Route => {
  const buildPage = onDemand(async () => {
    const { html, policy } = await page.page()
    return { html: fixedText(html), policy }
  })
  return route({
    method: 'GET',
    path: page.path,
    operationId: page.operationId,
    summary: page.summary,
    description: 'A page for people.',
    tag: 'Service',
    access: 'public',
    writes: false,
    hidden: true,
    responses: {
      200: { description: 'The page.', text: { mediaType: 'text/html', example: '' } },
      304: { description: 'The page is the one that If-None-Match names.' },
    },
    errors: [],
    handler: async ({ headers }) => {
      const { html, policy } = await buildPage()
      const answer = html(headers)
      return { ...answer, headers: { ...answer.headers, 'content-security-policy': policy } }
    },
  })
}

/** A whole page and its Content-Security-Policy. */
export type Page = { readonly html: string; readonly policy: string }

type PageParts = {
  readonly title: string
  readonly style: string
  /** The content of the body before the script. */
  readonly body: Html
  readonly script?: string
  /** False: search engines must not index the page. Default true. */
  readonly indexed?: boolean
}

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** Allows only the page's own style and script, by their hashes. The page can send no request. */
const policyOf = ({ style, script }: PageParts): string =>
  [
    "default-src 'none'",
    `style-src ${hashOf(style)}`,
    ...(script === undefined ? [] : [`script-src ${hashOf(script)}`]),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')

/**
 * A page that loads nothing: its style and its script are inline. Views are plain functions that return `Html`:
 * `pageOf({ title: 'Keys', style: `${colours()}${base}`, body: html`<main>${keys.map(keyView)}</main>` })`.
 */
export const pageOf = (parts: PageParts): Page => {
  const { title, style, body, script, indexed = true } = parts
  const { html: text } = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${indexed ? null : html`<meta name="robots" content="noindex">\n`}<title>${title}</title>
<style>${{ html: style }}</style>
</head>
<body>
${body}
${script === undefined ? null : html`<script>${{ html: script }}</script>\n`}</body>
</html>
`
  return { html: text, policy: policyOf(parts) }
}

const light = `--paper: #fbfaf7; --card: #ffffff; --ink: #1d2321; --soft: #5f6a66; --line: #e4e1d9; --accent: #0a6b52;`
const dark = `--paper: #101513; --card: #161d1a; --ink: #e3e9e6; --soft: #98a6a0; --line: #28322e; --accent: #5cc9a3;`

/**
 * The colours as CSS variables, light and dark. The system selects the set, or `data-theme` on the root element. A page
 * with additional colours gives both sets.
 */
export const colours = (
  overrides: { readonly light: string; readonly dark: string } = { light: '', dark: '' },
): string => `
:root { ${light} ${overrides.light} color-scheme: light; }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { ${dark} ${overrides.dark} color-scheme: dark; } }
:root[data-theme="dark"] { ${dark} ${overrides.dark} color-scheme: dark; }`

/** The style that every page starts with: boxes, colours and system fonts, because a page loads nothing. */
export const base = `
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
a { color: var(--accent); text-underline-offset: 3px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }`
