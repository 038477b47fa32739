import { STATUS_CODES } from 'node:http'
import type { JsonSchema } from '../http/json-schema.ts'
import { type Html, html, nothing } from '../ui/html.ts'
import { type Guide, guideList } from './guides.ts'
import { type Follow, fieldsView, jsonView, markdown, typeView } from './schema-view.ts'

/** A command with its copy button. */
export const sample = (command: Html): Html =>
  html`<div class="sample"><button type="button" class="copy">Copy</button><pre><code>${command}</code></pre></div>`

/** A stand-in for the service's address. The script of the page inserts the real one. */
export const origin: Html = html`<span class="origin">http://127.0.0.1:3000</span>`

/** The start section: how to get a key, the first call, and the guides. */
export const startView = (guides: {
  readonly callers: readonly Guide[]
  readonly operators: readonly Guide[]
}): Html => html`<section class="start">
<h2 id="start">Start</h2>
<p>You need a key. The operator of the service creates it; it is shown once:</p>
${sample(html`bin/farebox keys create --account acc_… --scopes buy,scrape`)}
<p>On the demo of <code>npm start</code> the first start prints the keys of a buyer and a reseller, and writes them into <code>demo.json</code> in the data directory. The commands below take the key from the environment:</p>
${sample(html`export KEY=fbx_…
curl '${origin}/api/v1/me' \\
  -H "X-API-Key: $KEY"`)}
${
  guides.callers.length + guides.operators.length === 0
    ? null
    : html`<h3 id="guides">Guides</h3>
<div class="guides">${guides.callers.length === 0 ? null : html`<div><p>For programs that call the API</p>${guideList(guides.callers)}</div>`}
${guides.operators.length === 0 ? null : html`<div><p>For operators of the service</p>${guideList(guides.operators)}</div>`}</div>`
}
</section>`

type Media = {
  readonly schema: JsonSchema
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}
type Content = Readonly<Record<string, Media>>

export type Response = {
  readonly $ref?: string
  readonly description: string
  readonly content?: Content
  readonly 'x-other-content'?: Content
}

export type Parameter = {
  readonly $ref?: string
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema: JsonSchema
  readonly example?: unknown
}

/** The part of an operation that the page shows. */
export type Operation = {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly tags: readonly string[]
  readonly security: readonly unknown[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, Response>>
}

export const badge = (method: string): Html =>
  html`<span class="method ${method}">${method.toUpperCase()}</span>`

const section = (title: string, content: Html): Html =>
  content.html === '' ? nothing : html`<h4>${title}</h4>${content}`

const parametersView = (parameters: readonly Parameter[], resolveRef: Follow): Html => {
  if (parameters.length === 0) return nothing
  const row = ({ name, in: location, required, description, schema }: Parameter): Html => html`<tr>
<th scope="row"><code>${name}</code>${required ? null : html`<span class="optional">optional</span>`}</th>
<td><span class="place">${location}</span> ${typeView(schema, resolveRef)}${description === undefined ? null : markdown(description)}</td>
</tr>`
  return html`<table class="fields"><tbody>${parameters.map(row)}</tbody></table>`
}

const exampleView = (mediaType: string, { example, examples }: Media): Html => {
  const exampleValues = examples === undefined ? [example] : Object.values(examples).map(({ value }) => value)
  if (mediaType !== 'application/json') return html`<pre><code>${String(example ?? '')}</code></pre>`
  return html`${exampleValues.filter((value) => value !== undefined).map(jsonView)}`
}

const codesOf = (response: Response): readonly string[] =>
  Object.values(response.content ?? {}).flatMap(({ examples }) => Object.keys(examples ?? {}))

const chip = (code: string): Html => html`<a class="chip" href="#error-${code}">${code}</a>`

const responseView = (status: string, response: Response, resolveRef: Follow): Html => {
  const ok = status.startsWith('2')
  const media = Object.entries({ ...response.content, ...response['x-other-content'] })
  return html`<details class="response ${ok ? 'ok' : 'refused'}"${ok ? html` open` : null}>
<summary><span class="status">${status}</span> ${ok ? response.description : (STATUS_CODES[status] ?? '')} ${codesOf(response).map(chip)}</summary>
${ok ? html`<p class="type">${media.map(([type, { schema }]) => html`<span>${type}: ${typeView(schema, resolveRef)}</span>`)}</p>` : null}
${media.map(([type, content]) => exampleView(type, content))}
</details>`
}

const pathWithExamples = (path: string, parameters: readonly Parameter[]): string => {
  const inPath = (name: string) => parameters.find((one) => one.name === name && one.in === 'path')?.example
  const filledPath = path.replace(/\{([^{}]+)\}/g, (placeholder, name: string) =>
    String(inPath(name) ?? placeholder),
  )
  const query = parameters.filter((one) => one.in === 'query' && one.example !== undefined)
  return query.length === 0
    ? filledPath
    : `${filledPath}?${query.map(({ name, example }) => `${name}=${example}`).join('&')}`
}

const shellQuote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** The request as a curl command. The script of the page inserts the server's own address. */
const curlView = (
  method: string,
  path: string,
  operation: Operation,
  parameters: readonly Parameter[],
): Html => {
  const body = operation.requestBody?.content['application/json']?.example
  const key = operation.security.length > 0 ? [`  -H "X-API-Key: $KEY"`] : []
  const idempotency = parameters.some(({ name }) => name === 'Idempotency-Key')
  const tail = [
    ...key,
    ...(idempotency ? [`  -H "Idempotency-Key: $(date +%s)-$$"`] : []),
    ...(body === undefined
      ? []
      : ["  -H 'Content-Type: application/json'", `  -d ${shellQuote(JSON.stringify(body))}`]),
  ]
  const verb = method === 'get' ? '' : `-X ${method.toUpperCase()} `
  const end = tail.length === 0 ? '' : ` \\\n${tail.join(' \\\n')}`
  return sample(html`curl ${verb}'${origin}${pathWithExamples(path, parameters)}'${end}`)
}

/** One operation: its description and input on the left, a sample call and its answers on the right. */
export const operationView = (
  method: string,
  path: string,
  operation: Operation,
  resolveRef: Follow,
): Html => {
  const parameters = (operation.parameters ?? []).map(resolveRef)
  const body = operation.requestBody?.content['application/json']?.schema
  const responses = Object.entries(operation.responses).map(([status, one]) =>
    responseView(status, resolveRef(one), resolveRef),
  )
  return html`<article class="operation" id="${operation.operationId}" data-find="${`${method} ${path} ${operation.summary}`.toLowerCase()}">
<div class="says">
<h3><a href="#${operation.operationId}">${operation.summary}</a></h3>
<p class="path">${badge(method)} <code>${path}</code></p>
${markdown(operation.description)}
${section('Parameters', parametersView(parameters, resolveRef))}
${section('Body', body === undefined ? nothing : fieldsView(body as { $ref: string }, resolveRef))}
</div>
<div class="shows">
${curlView(method, path, operation, parameters)}
${responses}
</div>
</article>`
}
