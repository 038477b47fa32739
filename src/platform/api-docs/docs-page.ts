import { type ErrorCode, errorCodes, errorEntry, errorHelp } from '../http/errors.ts'
import type { JsonSchema } from '../http/json-schema.ts'
import { type Page, pageOf } from '../ui/bare-page.ts'
import { type Html, html, nothing } from '../ui/html.ts'
import { script, style } from './docs-assets.ts'
import type { OpenApiDocument } from './openapi-document.ts'
import { badge, type Operation, operationView, startView } from './operation-view.ts'
import { type Follow, fieldsView, jsonView, markdown, typeView } from './schema-view.ts'

type Item = { readonly post: Operation }

const eventView = (name: string, { post }: Item, resolveRef: Follow): Html => {
  const media = post.requestBody?.content['application/json']
  if (media === undefined) return nothing
  const headers = (post.parameters ?? []).map(
    ({ name: header, description }) =>
      html`<tr><th scope="row"><code>${header}</code></th><td>${markdown(description ?? '')}</td></tr>`,
  )
  return html`<article class="operation" id="${post.operationId}" data-find="${`${name} ${post.summary}`.toLowerCase()}">
<div class="says">
<h3><a href="#${post.operationId}">${post.summary}</a></h3>
<p class="path"><code>${name}</code></p>
${markdown(post.description)}
<h4>Headers</h4><table class="fields"><tbody>${headers}</tbody></table>
<h4>Body</h4>${fieldsView(media.schema as { $ref: string }, resolveRef)}
</div>
<div class="shows">${jsonView(media.example)}</div>
</article>`
}

/** The events that receivers get; nothing if there are none. */
export const webhooksView = (document: OpenApiDocument, resolveRef: Follow): Html => {
  const webhooks = Object.entries((document.webhooks ?? {}) as Readonly<Record<string, Item>>)
  if (webhooks.length === 0) return nothing
  return html`<section class="tag">
<h2 id="events">Events</h2>
${markdown('What is sent to webhook endpoints. Verify the signature over the raw bytes before you parse them, compare in constant time, refuse a `created` older than five minutes, and de-duplicate on `webhook-id`: delivery is at least once.')}
${webhooks.map(([name, item]) => eventView(name, item, resolveRef))}
</section>`
}

type Entry = { readonly method: string; readonly path: string; readonly operation: Operation }

const entriesOf = (document: OpenApiDocument): readonly Entry[] =>
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      method,
      path,
      operation: operation as unknown as Operation,
    })),
  )

const createRefResolver = (document: OpenApiDocument): Follow => {
  const resolveRef: Follow = (node) => {
    if (node.$ref === undefined) return node
    const [, , part = '', name = ''] = node.$ref.split('/')
    return (document.components[part] as Record<string, typeof node>)[name] ?? node
  }
  return resolveRef
}

type Tag = { readonly name: string; readonly description: string }

const tagView = (tag: Tag, entries: readonly Entry[], resolveRef: Follow): Html => html`<section class="tag">
<h2 id="tag-${tag.name}">${tag.name}</h2>
${markdown(tag.description)}
${entries.map(({ method, path, operation }) => operationView(method, path, operation, resolveRef))}
</section>`

const retryText = { later: 'later', 'after-change': 'after a change', never: 'no' } as const

const errorRow = (code: ErrorCode): Html => {
  const { status, retry } = errorEntry(code)
  return html`<tr id="error-${code}" data-find="${`${code} ${status}`}">
<th scope="row"><code>${code}</code></th><td class="figure">${status}</td><td>${markdown(errorHelp(code))}</td><td>${retryText[retry]}</td>
</tr>`
}

const errorsView = (): Html => html`<section class="tag">
<h2 id="errors">Errors</h2>
${markdown('Every error is `{ "error", "code", "requestId" }` with a status that is not 2xx, and some carry more fields. Branch on `code`: it never changes its meaning; the text may. Quote `requestId` when you ask for help.')}
<div class="scroll"><table class="errors"><thead><tr><th scope="col">Code</th><th scope="col">Status</th><th scope="col">What it means, what to do</th><th scope="col">Retry</th></tr></thead><tbody>${errorCodes.map(errorRow)}</tbody></table></div>
</section>`

const schemasView = (document: OpenApiDocument, resolveRef: Follow): Html => html`<section class="tag">
<h2 id="schemas">Schemas</h2>
${Object.entries(document.components.schemas).map(
  ([name, schema]) =>
    html`<article class="schema" id="schema-${name}" data-find="${name.toLowerCase()}"><h3>${name}</h3>${schema.properties ? fieldsView({ $ref: `#/components/schemas/${name}` }, resolveRef) : typeView(schema as JsonSchema, resolveRef)}</article>`,
)}
</section>`

const navigation = (document: OpenApiDocument, tags: readonly Tag[], entries: readonly Entry[]): Html => {
  const item = ({ method, operation }: Entry): Html =>
    html`<li><a href="#${operation.operationId}">${badge(method)}<span>${operation.summary}</span></a></li>`
  const group = ({ name }: Tag): Html =>
    html`<h2><a href="#tag-${name}">${name}</a></h2><ul>${entries.filter(({ operation }) => operation.tags[0] === name).map(item)}</ul>`
  return html`<nav aria-label="Operations">
<label class="search"><span class="hidden">Search</span><input type="search" id="search" placeholder="Search operations and codes  /" autocomplete="off"></label>
<h2><a href="#start">Start</a></h2>
${tags.map(group)}
${document.webhooks === undefined ? null : html`<h2><a href="#events">Events</a></h2>`}<h2><a href="#errors">Errors</a></h2><h2><a href="#schemas">Schemas</a></h2>
</nav>`
}

/** The documentation as one page that loads nothing and works without a network. */
export const docsPage = (
  document: OpenApiDocument,
  guides: Parameters<typeof startView>[0] = { callers: [], operators: [] },
): Page => {
  const entries = entriesOf(document)
  const resolveRef = createRefResolver(document)
  const tags = (document.tags as readonly Tag[]).filter(({ name }) =>
    entries.some(({ operation }) => operation.tags[0] === name),
  )
  const { title, version, summary, description } = document.info as Readonly<Record<string, string>>
  const body = html`<a class="skip" href="#main">Skip to the documentation</a>
<header><a class="brand" href="#top"><span class="mark" aria-hidden="true"></span>${title ?? ''}</a><span class="version">API ${version ?? ''}</span><span class="space"></span><a href="/openapi.json">openapi.json</a><button type="button" id="theme" aria-label="Switch between light and dark">◐</button></header>
<div class="page">
${navigation(document, tags, entries)}
<main id="main">
<section class="intro" id="top"><h1>${title ?? ''} API</h1><p class="lead">${summary ?? ''}</p>${markdown(description ?? '')}<p>For programs: <a href="/openapi.json">openapi.json</a>, <a href="/openapi-core.json">openapi-core.json</a></p></section>
${startView(guides)}
${tags.map((tag) =>
  tagView(
    tag,
    entries.filter(({ operation }) => operation.tags[0] === tag.name),
    resolveRef,
  ),
)}
${webhooksView(document, resolveRef)}
${errorsView()}
${schemasView(document, resolveRef)}
<p class="empty" hidden>Nothing fits the search.</p>
</main>
</div>`
  return pageOf({ title: `${title ?? ''} API`, style, body, script })
}
