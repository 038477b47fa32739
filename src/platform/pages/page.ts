import { createHash } from 'node:crypto'
import { type Html, html } from './html.ts'

/** A whole page, and the Content-Security-Policy that it is sent with. */
export type Page = { readonly html: string; readonly policy: string }

type PageParts = {
  readonly title: string
  readonly style: string
  /** What stands in the body before the script. */
  readonly body: Html
  readonly script?: string
  /** False keeps search engines away; default true. */
  readonly indexed?: boolean
}

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** Allows the page its own style and script by their hashes, and nothing else: no request leaves it. */
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
 * A page that loads nothing: its style and its script are inside. Views are plain functions that return `Html`:
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
