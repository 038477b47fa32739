import assert from 'node:assert/strict'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { trimEnd } from '../../src/kernel/formats.ts'
import { type ErrorCode, errorEntry } from '../../src/platform/http/errors.ts'

type Json = Readonly<Record<string, unknown>>
type Content = Readonly<Record<string, { readonly schema: unknown; readonly examples?: Json }>>
type Operation = Json & { readonly operationId: string; readonly responses: Readonly<Record<string, Json>> }

/** An OpenAPI 3.1 document, as the server gives it or as `openApiDocument(routes, { forTests: true })` makes it. */
export type Document = {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly components: Json
}

export type CallOptions = {
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent as it is; give a content type in `headers`. */
  readonly raw?: string | Uint8Array<ArrayBuffer>
}

export type Called = {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: its shape was checked against the document; tests read into it freely
  readonly body: any
}

/** An observed answer of an operation: `createOrder 201`, or `createOrder 409 price_changed`. */
export type Seen = ReadonlySet<string>

export type HttpClient = {
  call(method: string, path: string, options?: CallOptions): Promise<Called>
  get(path: string, options?: CallOptions): Promise<Called>
  post(path: string, json: unknown, options?: CallOptions): Promise<Called>
  readonly seen: Seen
}

const pointerSafe = (name: string): RegExp =>
  new RegExp(`^${name.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{[^}]+\}/g, '[^/]+')}$`)

const withDocument = (schema: unknown): unknown =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/components/', '"document#/components/'))

/** Finds operations and checks answers against the document's declarations. */
const createChecker = (document: Document) => {
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: true })
  addFormats.default(ajv)
  ajv.addSchema({ $id: 'document', components: document.components })
  const paths = Object.entries(document.paths)
    .map(([path, operations]) => ({ pattern: pointerSafe(path), operations, literal: !path.includes('{') }))
    .sort((a, b) => Number(b.literal) - Number(a.literal))
  const validators = new Map<string, ValidateFunction>()
  /** By their text: the answers with errors have one schema. */
  const compiled = new Map<string, ValidateFunction>()

  const resolve = (node: Json): Json => {
    const { $ref } = node
    if (typeof $ref !== 'string') return node
    const [, , section = '', name = ''] = $ref.split('/')
    return (document.components[section] as Readonly<Record<string, Json>>)[name] as Json
  }

  const operationOf = (method: string, path: string): Operation | undefined => {
    const name = method === 'HEAD' ? 'get' : method.toLowerCase()
    for (const { pattern, operations } of paths)
      if (pattern.test(path) && operations[name] !== undefined) return operations[name] as Operation
    return undefined
  }

  const validatorOf = (place: string, schema: unknown): ValidateFunction => {
    const known = validators.get(place)
    if (known !== undefined) return known
    const text = JSON.stringify(schema)
    const validate = compiled.get(text) ?? ajv.compile(withDocument(schema) as object)
    compiled.set(text, validate)
    validators.set(place, validate)
    return validate
  }

  const checkError = ({ status, headers, body }: Called, where: string): void => {
    assert.equal(typeof body?.error, 'string', `${where}: an error says what is wrong`)
    assert.equal(typeof body.code, 'string', `${where}: an error has a code`)
    assert.equal(body.requestId, headers.get('x-request-id'), `${where}: requestId is the header's`)
    if (status === 429 || status === 503)
      assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/, `${where}: Retry-After is whole seconds`)
  }

  /** Fields that the document does not repeat for each answer: of HTTP, of caches, of CORS and for browsers. */
  const usualFields =
    /^(?:date|connection|keep-alive|transfer-encoding|content-(?:type|length|encoding|security-policy)|vary|cache-control|referrer-policy|x-content-type-options|x-frame-options|access-control-.*)$/

  const checkHeaders = ({ headers }: Called, declared: Json, where: string): void => {
    const names = Object.keys((declared.headers as Json | undefined) ?? {}).map((name) => name.toLowerCase())
    const undeclared = [...headers.keys()].filter((name) => !usualFields.test(name) && !names.includes(name))
    assert.deepEqual(undeclared, [], `${where}: undeclared header fields`)
  }

  /** @returns the observed answer, or null for a path that the document does not have */
  return (method: string, path: string, called: Called): string | null => {
    const where = `${method} ${path} → ${called.status}`
    assert.notEqual(called.headers.get('x-request-id'), null, `${where}: every answer carries a request id`)
    assert.ok(
      called.status < 500 || called.status === 502 || called.status === 503,
      `${where}: ${called.text}`,
    )
    if (called.status >= 400 && method !== 'HEAD') checkError(called, where)
    // What fetch sends: dot segments are resolved before anything leaves, and a redirect from slashes at the end is followed.
    const operation = operationOf(method, trimEnd(new URL(path, 'http://localhost').pathname, '/'))
    if (operation === undefined) {
      assert.ok([204, 404, 405].includes(called.status), `${where}: undeclared path`)
      return null
    }
    const declared = operation.responses[String(called.status)]
    assert.ok(
      declared !== undefined,
      `${where}: ${operation.operationId} does not declare it: ${called.text}`,
    )
    checkHeaders(called, resolve(declared), where)
    if (method === 'HEAD') return null
    const response = resolve(declared) as Readonly<Record<'content' | 'x-other-content', Content | undefined>>
    const content = response.content && { ...response.content, ...response['x-other-content'] }
    const mediaType = called.headers.get('content-type')?.split(';', 1)[0] ?? ''
    if (content === undefined) assert.equal(called.text, '', `${where}: declared without a body`)
    else {
      const media = content[mediaType]
      assert.ok(media !== undefined, `${where}: undeclared media type ${mediaType}`)
      if (called.body !== undefined) {
        const validate = validatorOf(`${operation.operationId} ${called.status}`, media.schema)
        const valid = validate(called.body)
        assert.ok(valid, `${where}: ${ajv.errorsText(validate.errors)}\n${called.text}`)
        if (called.status >= 400) {
          const { code } = called.body as { code: ErrorCode }
          assert.ok(media.examples?.[code], `${where}: undeclared code ${code}`)
          errorEntry(code).extra?.parse(called.body)
        }
      }
    }
    const code = called.status >= 400 ? ` ${called.body.code}` : ''
    return `${operation.operationId} ${called.status}${code}`
  }
}

const checkers = new WeakMap<Document, ReturnType<typeof createChecker>>()

const checkerOf = (document: Document): ReturnType<typeof createChecker> => {
  const known = checkers.get(document) ?? createChecker(document)
  checkers.set(document, known)
  return known
}

const parsed = (headers: Headers, text: string): unknown =>
  headers.get('content-type')?.startsWith('application/json') && text !== '' ? JSON.parse(text) : undefined

const request = async (url: string, method: string, options: CallOptions): Promise<Called> => {
  const body = options.json === undefined ? options.raw : JSON.stringify(options.json)
  const response = await fetch(url, {
    method,
    headers: {
      ...(options.key === undefined ? {} : { 'x-api-key': options.key }),
      ...(options.json === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: parsed(response.headers, text) }
}

/**
 * A client that checks every answer against the interface description: declared status, declared code, a body
 * that fits its schema, the error form, request ids and `Retry-After`. `seen` lists the observed answers.
 */
export const httpClient = (baseUrl: string, document: Document, defaultKey?: string): HttpClient => {
  const check = checkerOf(document)
  const seen = new Set<string>()
  const call: HttpClient['call'] = async (method, path, options = {}) => {
    const key = options.key ?? defaultKey
    const called = await request(
      `${baseUrl}${path}`,
      method,
      key === undefined ? options : { ...options, key },
    )
    const what = check(method, path, called)
    if (what !== null) seen.add(what)
    return called
  }
  return {
    call,
    get: (path, options) => call('GET', path, options),
    post: (path, json, options) => call('POST', path, { ...options, json }),
    seen,
  }
}

/** Documents by their texts: those of one process are mostly the same, and a validator takes longer to make than a test. */
const documents = new Map<string, Document>()

/** The shorter document of a server: its rules for `scrape` apply to the operations of single scrapers, too. */
export const documentOf = async (baseUrl: string): Promise<Document> => {
  const served = await (await fetch(`${baseUrl}/openapi-core.json`)).text()
  const text = served.replace(baseUrl, '/')
  const document = documents.get(text) ?? (JSON.parse(text) as Document)
  documents.set(text, document)
  return document
}

/** A client that knows the document of the server itself. */
export const httpClientOf = async (baseUrl: string, defaultKey?: string): Promise<HttpClient> =>
  httpClient(baseUrl, await documentOf(baseUrl), defaultKey)

/** Everything that the document declares, in the words of `seen`: a coverage test subtracts the one from the other. */
export const declaredOf = (document: Document): ReadonlySet<string> => {
  const declared = new Set<string>()
  const responses = document.components.responses as Readonly<Record<string, Json>>
  for (const operations of Object.values(document.paths))
    for (const operation of Object.values(operations) as Operation[])
      for (const [status, answer] of Object.entries(operation.responses)) {
        const { $ref } = answer
        const full = typeof $ref === 'string' ? responses[$ref.split('/').at(-1) ?? ''] : answer
        const media = (full?.content as Readonly<Record<string, { examples?: Json }>> | undefined)?.[
          'application/json'
        ]
        const codes = Number(status) >= 400 ? Object.keys(media?.examples ?? {}) : []
        for (const code of codes) declared.add(`${operation.operationId} ${status} ${code}`)
        if (codes.length === 0) declared.add(`${operation.operationId} ${status}`)
      }
  return declared
}
