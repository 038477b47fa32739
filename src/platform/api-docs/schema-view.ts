import type { JsonSchema } from '../http/json-schema.ts'
import { escapeHtml, type Html, html, nothing } from '../ui/html.ts'

/** The closing quote is always there. Because it is optional in the pattern, the search does not backtrack. */
const token = /("(?:[^"\\]|\\.)*"?)(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

const span = (kind: string, text: string): string => `<span class="${kind}">${escapeHtml(text)}</span>`

/** Renders JSON, indented and coloured. */
export const jsonView = (value: unknown): Html => {
  const text = JSON.stringify(value, null, 2)
  let html = ''
  let from = 0
  for (const match of text.matchAll(token)) {
    const [tokenText, string, colon, literal] = match
    html += escapeHtml(text.slice(from, match.index))
    if (string === undefined) html += span(literal === undefined ? 'num' : 'lit', tokenText)
    else html += colon === undefined ? span('str', string) : `${span('key', string)}${colon}`
    from = match.index + tokenText.length
  }
  return { html: `<pre><code>${html}${escapeHtml(text.slice(from))}</code></pre>` }
}

const inline = (text: string): string =>
  escapeHtml(text)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')

const block = (text: string): string => {
  const lines = text.split('\n')
  if (!lines.every((line) => line.startsWith('- '))) return `<p>${lines.map(inline).join(' ')}</p>`
  return `<ul>${lines.map((line) => `<li>${inline(line.slice(2))}</li>`).join('')}</ul>`
}

/** Renders the Markdown of descriptions: paragraphs, lists, **bold** and `code`. */
export const markdown = (text: string): Html => ({
  html: text
    .split(/\n{2,}/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map(block)
    .join(''),
})

const nameOf = ($ref: string): string => $ref.split('/').at(-1) ?? ''

const link = ($ref: string): Html => html`<a href="#schema-${nameOf($ref)}">${nameOf($ref)}</a>`

const joined = (parts: readonly Html[], separator: string): Html => ({
  html: parts.map(({ html: text }) => text).join(separator),
})

const limits: readonly (readonly [keyword: string, sign: string])[] = [
  ['minimum', '≥ '],
  ['maximum', '≤ '],
  ['minLength', 'length ≥ '],
  ['maxLength', 'length ≤ '],
  ['minItems', 'entries ≥ '],
  ['maxItems', 'entries ≤ '],
]

const limitsOf = (schema: JsonSchema): string =>
  [
    ...limits.flatMap(([keyword, sign]) =>
      schema[keyword] === undefined ? [] : [`${sign}${schema[keyword]}`],
    ),
    ...(schema.default === undefined ? [] : [`default ${JSON.stringify(schema.default)}`]),
  ].join(', ')

/** Resolves a reference into the document's components. */
export type Follow = <Node extends { readonly $ref?: string }>(node: Node) => Node

/** The type of a value in a few words: `integer ≥ 1`, `"a" | "b"`, a link to a named object, a list of these. */
export const typeView = (schema: JsonSchema, resolveRef: Follow): Html => {
  if (schema.$ref !== undefined) {
    const target = resolveRef(schema)
    return target.enum === undefined ? link(schema.$ref) : typeView(target, resolveRef)
  }
  if (schema.enum !== undefined)
    return joined(
      schema.enum.map((value) => html`<code>${JSON.stringify(value)}</code>`),
      ' | ',
    )
  if (schema.const !== undefined) return html`<code>${JSON.stringify(schema.const)}</code>`
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf
  if (Array.isArray(choices))
    return joined(
      (choices as JsonSchema[]).map((choice) => typeView(choice, resolveRef)),
      schema.allOf ? ' + ' : ' | ',
    )
  if (schema.items !== undefined) return html`list of ${typeView(schema.items, resolveRef)}`
  const type = typeof schema.type === 'string' ? schema.type : (schema.type?.join(' | ') ?? 'any')
  const format = typeof schema.format === 'string' ? ` (${schema.format})` : ''
  const bounds = limitsOf(schema)
  return html`${type}${format}${bounds === '' ? null : html` <small>${bounds}</small>`}`
}

/** Long paths break after a dot. */
const breakable = (path: string): Html => ({ html: escapeHtml(path).replaceAll('.', '.<wbr>') })

type Reference = { readonly $ref: string }

/** The object of a field, or of its entries, that no other object has: it is named after the object around it. */
const partOf = ({ $ref }: Reference, field: JsonSchema): Reference | undefined =>
  [field, field.items, ...(field.oneOf ?? [])]
    .map((each) => each?.$ref)
    .filter((each) => each?.startsWith($ref) && each !== $ref)
    .map((each) => ({ $ref: each as string }))[0]

const rows = (object: Reference, path: string, resolveRef: Follow): readonly Html[] => {
  const { properties = {}, required = [] }: JsonSchema = resolveRef(object)
  return Object.entries(properties).map(([name, field]) => {
    const part = partOf(object, field)
    return html`<tr>
<th scope="row"><code>${breakable(path)}${name}</code>${required.includes(name) ? null : html`<span class="optional">optional</span>`}</th>
<td>${typeView(field, resolveRef)}${typeof field.description === 'string' ? markdown(field.description) : null}</td>
</tr>${part ? rows(part, `${path}${name}.`, resolveRef) : null}`
  })
}

/** The fields of an object as a table. Fields of its parts are listed by their path. */
export const fieldsView = (object: Reference, resolveRef: Follow): Html => {
  const fields = rows(object, '', resolveRef)
  return fields.length === 0 ? nothing : html`<table class="fields"><tbody>${fields}</tbody></table>`
}
