import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { Called, Document } from '../support/http.ts'
import { testApp } from '../support/test-app.ts'
import type { Schema } from './arbitraries.ts'
import { type ExampleRequest, exampleRequests } from './examples.ts'

type Node = Schema & { readonly uniqueItems?: boolean }
type Way = readonly (string | number)[]

/** A part of a request, with its schema. */
type Place = { readonly in: 'path' | 'query' | 'header' | 'body'; readonly way: Way; readonly node: Node }

const isObject = (value: unknown): value is Record<string | number, unknown> =>
  typeof value === 'object' && value !== null

/** A copy of a value with another value at a place; undefined: without the place. */
const changed = (root: unknown, [first, ...rest]: Way, value: unknown): unknown => {
  if (first === undefined) return value
  const copy = (isObject(root) ? structuredClone(root) : typeof first === 'number' ? [] : {}) as Record<
    string | number,
    unknown
  >
  const next = changed(copy[first], rest, value)
  if (next === undefined) delete copy[first]
  else copy[first] = next
  return copy
}

const nameOf = ({ way }: Place): string => String(way.findLast((part) => typeof part === 'string') ?? 'body')

const sendWith = (
  { base, operation, send }: ExampleRequest,
  place: Place,
  value: unknown,
): Promise<Called> => {
  const [first = ''] = place.way
  switch (place.in) {
    case 'path': {
      const names = operation.parameters.filter((parameter) => parameter.in === 'path')
      const at = names.findIndex(({ name }) => name === first)
      return send({ ...base, ids: base.ids.with(at, String(value)) })
    }
    case 'query':
      return send({ ...base, query: { ...base.query, [first]: value } })
    case 'header':
      return send({ ...base, headers: { ...base.headers, [first]: String(value) } })
    default:
      return send({ ...base, body: changed(base.body, place.way, value) })
  }
}

/** Every parameter and field of an operation. */
function* placesOf({ operation }: ExampleRequest, document: Document): Generator<Place> {
  const schemas = document.components.schemas as Readonly<Record<string, Node>>
  const resolved = (node: Node): Node =>
    node.$ref === undefined ? node : resolved(schemas[node.$ref.split('/').at(-1) ?? ''] ?? {})
  function* inside(way: Way, schema: Node): Generator<Place> {
    const node = resolved(schema)
    yield { in: 'body', way, node }
    if (node.items !== undefined) yield* inside([...way, 0], node.items)
    for (const [name, field] of Object.entries(node.properties ?? {})) yield* inside([...way, name], field)
  }
  for (const parameter of operation.parameters)
    yield { in: parameter.in, way: [parameter.name], node: resolved(parameter.schema) }
  if (operation.body !== null) yield* inside([], operation.body)
}

const typesOf = ({ type }: Node): readonly string[] => (type === undefined ? [] : [type].flat())

const ofType = ({ type }: Node = {}): unknown => (type === 'integer' ? 1 : type === 'object' ? {} : 'x')

/** For each keyword of a schema a value that violates it alone, as far as that is possible. */
const violationsOf = ({
  node,
  in: where,
}: Place): readonly (readonly [keyword: string, value: unknown])[] => {
  const types = typesOf(node)
  const { minimum, maximum, minLength, maxLength, minItems, maxItems, items, pattern } = node
  const found: (readonly [string, unknown])[] = []
  const add = (keyword: string, ...values: readonly unknown[]) =>
    void found.push(...values.map((value) => [keyword, value] as const))
  if (node.enum !== undefined) add('enum', 'no-such-word')
  if (types.includes('integer')) add('type', 'x', 1.5)
  if (minimum !== undefined) add('minimum', minimum - 1)
  if (maximum !== undefined) add('maximum', maximum + 1)
  if (types.includes('string') && where === 'body') add('type', 7)
  if (minLength) add('minLength', '')
  if (maxLength !== undefined) add('maxLength', 'x'.repeat(maxLength + 1))
  if (pattern !== undefined)
    add('pattern', ...['~ !', 'é'].filter((text) => !new RegExp(pattern).test(text)).slice(0, 1))
  if (node.format === 'date' || node.format === 'date-time' || node.format === 'uri') add('format', 'never')
  if (types.includes('boolean')) add('type', 'yes')
  if (types.includes('array')) add('type', 'x')
  if (minItems) add('minItems', [])
  if (maxItems !== undefined) add('maxItems', Array(maxItems + 1).fill(ofType(items)))
  if (node.uniqueItems) add('uniqueItems', Array(2).fill((items as Node | undefined)?.enum?.[0]))
  if (types.includes('object')) add('type', [])
  return found
}

/** The values of a schema that are most likely to be refused. */
const validValues = (node: Node): readonly unknown[] => {
  const types = typesOf(node)
  if (node.enum !== undefined) return node.enum
  if (types.includes('boolean')) return [true, false]
  if (types.includes('integer')) return [node.minimum ?? -1, node.maximum ?? Number.MAX_SAFE_INTEGER]
  if (!types.includes('string') || node.pattern !== undefined || node.format !== undefined) return []
  return ['~!', 'x'.repeat(node.maxLength ?? 5_000)]
}

/** Fields whose accepted values depend on a product, a plan, a list or another field. */
const decidedByData: ReadonlySet<string> = new Set([
  ...['product_id', 'quantity', 'period_days', 'carrier_id', 'service', 'rotation_minutes'],
  ...['count', 'state', 'city', 'isp', 'asn', 'os', 'strict', 'udp'],
  ...['excludeCountries', 'excludeStates', 'excludeCities', 'excludeAsn'],
  ...['template', 'timeZone', 'cursor', 'after', 'proxy', 'proxies', 'periods', 'customer_id'],
  ...['amountCents', 'targetBalanceCents', 'monthlyMaxCents', 'thresholdCents'],
])

test('The document', async (t) => {
  const app = await testApp(t, { with: ['financeToken'] })
  const { document } = app
  const requests = await exampleRequests(t, app)

  await t.test('has an example of each request that the server accepts', async () => {
    const refused: string[] = []
    for (const { operation, examples, base, send } of requests)
      for (const parts of [examples, base]) {
        const { status, body } = await send(parts)
        if (status >= 300 && ![402, 404, 409, 503].includes(status) && body.code !== 'deposits_not_available')
          refused.push(`${operation.operationId}: ${status} ${body?.error}`)
      }
    assert.deepEqual(refused, [])
  })

  await t.test('has only rules that the server enforces', async () => {
    const unenforced: string[] = []
    let sent = 0
    const expectRefusal = async (request: ExampleRequest, place: Place, keyword: string, value: unknown) => {
      const { status, body } = await sendWith(request, place, value)
      sent += 1
      const isRefused = place.in === 'path' ? status === 404 : status === 400 || status === 422
      if (
        !isRefused ||
        (place.in !== 'path' && !body.error.includes(nameOf(place)) && !body.error.startsWith('input '))
      )
        unenforced.push(
          `${request.operation.operationId} ${place.in} ${place.way.join('.')} ${keyword}: ${status} ${body?.error}`,
        )
    }
    for (const request of requests)
      for (const place of placesOf(request, document)) {
        for (const [keyword, value] of violationsOf(place))
          await expectRefusal(request, place, keyword, value)
        for (const name of place.node.required ?? []) {
          const field = { ...place, way: [...place.way, name] }
          await expectRefusal(request, field, 'required', undefined)
        }
        if (place.node.additionalProperties === false)
          await expectRefusal(request, { ...place, way: [...place.way, 'colour'] }, 'additionalProperties', 1)
      }
    assert.deepEqual(unenforced, [])
    assert.ok(sent > 200, `${sent} requests`)
  })

  await t.test('has every query parameter that the server accepts', async () => {
    const wrong: string[] = []
    for (const { operation, base, send } of requests) {
      const names = operation.parameters
        .filter((parameter) => parameter.in === 'query')
        .map(({ name }) => name)
      const { status, body } = await send({ ...base, query: { ...base.query, colour: 1 } })
      const expected = `unknown query parameter "colour"; accepted parameters: ${names.join(', ') || 'none'}`
      if (status !== 400 || body.code !== 'invalid_parameter' || body.error !== expected)
        wrong.push(`${operation.operationId}: ${status} ${body?.error}`)
    }
    assert.deepEqual(wrong, [])
  })

  await t.test('has every rule by which the server refuses a value without looking anything up', async () => {
    const ajv = new Ajv2020({ strict: false })
    addFormats.default(ajv)
    ajv.addSchema({ $id: 'document', components: document.components })
    const undeclared: string[] = []
    for (const request of requests) {
      const { operationId, body } = request.operation
      const schema = JSON.stringify(body ?? {}).replaceAll('"#/components/', '"document#/components/')
      const isValid = ajv.compile(JSON.parse(schema))
      for (const place of placesOf(request, document)) {
        if (place.in === 'path' || place.in === 'header' || decidedByData.has(nameOf(place))) continue
        for (const value of validValues(place.node)) {
          if (place.in === 'body' && !isValid(changed(request.base.body, place.way, value))) continue
          const { status, body } = await sendWith(request, place, value)
          if (status === 400 || status === 422)
            undeclared.push(
              `${operationId} ${place.way.join('.')} ${String(value).slice(0, 20)}: ${body?.error}`,
            )
        }
      }
    }
    assert.deepEqual(undeclared, [])
  })
})
