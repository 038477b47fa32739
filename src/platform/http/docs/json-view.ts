import type { Html } from '../../pages/html.ts'
import { escapeHtml } from '../../pages/html.ts'

/** The closing quote is always there; a search that need not find it never goes back to look for another beginning. */
const token = /("(?:[^"\\]|\\.)*"?)(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

const span = (kind: string, text: string): string => `<span class="${kind}">${escapeHtml(text)}</span>`

/** JSON, indented and coloured. */
export const jsonView = (value: unknown): Html => {
  const text = JSON.stringify(value, null, 2)
  let html = ''
  let from = 0
  for (const match of text.matchAll(token)) {
    const [whole, string, colon, literal] = match
    html += escapeHtml(text.slice(from, match.index))
    if (string === undefined) html += span(literal === undefined ? 'num' : 'lit', whole)
    else html += colon === undefined ? span('str', string) : `${span('key', string)}${colon}`
    from = match.index + whole.length
  }
  return { html: `<pre><code>${html}${escapeHtml(text.slice(from))}</code></pre>` }
}
