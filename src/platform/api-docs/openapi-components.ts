import type { z } from 'zod'
import { type JsonSchema, jsonSchemaOf } from '../http/json-schema.ts'
import type { Route } from '../http/route.ts'

type Json = Readonly<Record<string, unknown>>

/** The named schemas of a document, collected while its operations are written. */
export type Components = {
  /** The schema for an operation: a schema with an id, or with a given name, becomes a reference. */
  add(schema: z.ZodType, io: 'input' | 'output', name?: string): Json
  /** Stores a JSON Schema under a name. Returns the reference to it. */
  define(name: string, schema: Json): Json
  readonly schemas: Readonly<Record<string, Json>>
  /** Stores a response that many operations share, under its name. Returns the reference to it. */
  share(name: string, response: Json): Json
  readonly responses: Readonly<Record<string, Json>>
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

/** Rewrites every object of a JSON value, innermost first. */
const rewrite = (value: unknown, change: (node: Record<string, unknown>) => Json): unknown => {
  if (Array.isArray(value)) return value.map((item) => rewrite(item, change))
  if (!isObject(value)) return value
  return change(Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rewrite(item, change)])))
}

const definition = '#/$defs/'

const reference = (node: Record<string, unknown>, names: ReadonlyMap<string, string>): Json => {
  const { $ref } = node
  if (typeof $ref !== 'string' || !$ref.startsWith(definition)) return node
  const name = $ref.slice(definition.length)
  return { ...node, $ref: `#/components/schemas/${names.get(name) ?? name}` }
}

/** Later versions may add fields to answers, so clients must not refuse unknown ones. Tests refuse them. */
const open = (node: Record<string, unknown>): Json => {
  const { additionalProperties, ...rest } = node
  return additionalProperties === false ? rest : node
}

/** zod leaves the id of a named schema in the schema. A property with the name `id` is a schema and not a text. */
const withoutId = (node: Json): Json => {
  const { id, ...rest } = node
  return typeof id === 'string' ? rest : node
}

/** `type: [X, "null"]`, the one form of a nullable value in this document. For a named schema it remains a choice. */
const nullable = (node: Json): Json => {
  const { anyOf, ...rest } = node
  if (!Array.isArray(anyOf) || anyOf.length !== 2 || anyOf[1]?.type !== 'null') return node
  const { type, ...value } = anyOf[0] as Json
  if (type === undefined) return node
  const types = [type].flat()
  return {
    ...value,
    ...rest,
    type: types.includes('null') ? types : [...types, 'null'],
    ...(Array.isArray(value.enum) && { enum: [...value.enum, null] }),
  }
}

/** An optional field of a request may also be null (src/platform/http/request-shape.ts). */
const takingNull = (node: Json): Json => {
  const { properties, required } = node
  if (node.type !== 'object' || !isObject(properties)) return node
  const isRequired = (name: string): boolean => Array.isArray(required) && required.includes(name)
  const fields = Object.entries(properties).map(([name, field]) => [
    name,
    isRequired(name) || !isObject(field) || field.type === undefined
      ? field
      : nullable({ anyOf: [field, { type: 'null' }] }),
  ])
  return { ...node, properties: Object.fromEntries(fields) }
}

const typeOfValue = (value: unknown): string => {
  if (value === null) return 'null'
  return Number.isInteger(value) ? 'integer' : typeof value
}

/** Adds the type to an enumeration or a constant, and the items to a list. */
const typed = (node: Json): Json => {
  const values = Array.isArray(node.enum) ? node.enum : 'const' in node ? [node.const] : []
  const types = [...new Set(values.map(typeOfValue))]
  const isList = (typeof node.type === 'string' || Array.isArray(node.type)) && node.type.includes('array')
  return {
    ...node,
    ...(types.length > 0 && node.type === undefined && { type: types.length === 1 ? types[0] : types }),
    ...(isList && node.items === undefined && { items: {} }),
  }
}

/** @param closedAnswers answers have `additionalProperties: false`, for tests */
export const createComponents = (closedAnswers: boolean): Components => {
  const schemas: Record<string, Json> = {}
  const responses: Record<string, Json> = {}

  /** The request schema and the answer schema of one id may differ. The second one then gets a name of its own. */
  const keep = (id: string, schema: Json, io: 'input' | 'output'): string => {
    const name = [id, `${id}${io === 'input' ? 'Input' : 'Answer'}`].find(
      (candidate) =>
        schemas[candidate] === undefined || JSON.stringify(schemas[candidate]) === JSON.stringify(schema),
    )
    if (name === undefined) throw new Error(`two different schemas have the id ${id}`)
    schemas[name] = schema
    return name
  }

  return {
    schemas,
    responses,
    share(name, response) {
      const known = responses[name]
      if (known !== undefined && JSON.stringify(known) !== JSON.stringify(response))
        throw new Error(`two different responses have the name ${name}`)
      responses[name] = response
      return { $ref: `#/components/responses/${name}` }
    },
    define: (name, schema) => ({ $ref: `#/components/schemas/${keep(name, schema, 'output')}` }),
    add(schema, io, fallbackName) {
      const { $defs = {}, id, ...root }: JsonSchema = jsonSchemaOf(schema, io)
      const names = new Map<string, string>()
      const finish = (json: unknown): Json =>
        rewrite(json, (node) => {
          const rest = typed(nullable(withoutId(reference(node, names))))
          if (io === 'input') return takingNull(rest)
          return closedAnswers ? rest : open(rest)
        }) as Json
      for (const [name, json] of Object.entries($defs)) names.set(name, keep(name, finish(json), io))
      const name = typeof id === 'string' ? id : fallbackName
      if (name === undefined || typeof root.$ref === 'string') return finish(root)
      return { $ref: `#/components/schemas/${keep(name, finish(root), io)}` }
    },
  }
}

type ParameterJson = Readonly<Record<string, unknown>>

/** The fields of a schema as parameters, with their descriptions and examples. */
const parametersOf = (
  schema: z.ZodObject | undefined,
  location: 'path' | 'query',
  examples: Readonly<Record<string, unknown>> | undefined,
): readonly ParameterJson[] => {
  if (schema === undefined) return []
  const { properties = {}, required = [] } = jsonSchemaOf(schema, 'input')
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...rest } = property
    return {
      name,
      in: location,
      required: location === 'path' || required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: rest,
      ...(examples?.[name] === undefined ? {} : { example: examples[name] }),
    }
  })
}

const parameter = (name: string): ParameterJson => ({ $ref: `#/components/parameters/${name}` })

const sharedParametersOf = (route: Route): readonly ParameterJson[] => [
  ...(route.idempotencyKey === undefined ? [] : [parameter('Idempotency-Key')]),
  ...(route.customer === 'pays' || route.customer === 'limits'
    ? [parameter('X-Reseller-Customer-Id'), parameter('customer_id')]
    : []),
  ...(route.requestIdIsKey ? [parameter('X-Request-Id')] : []),
]

/** Parameters of many operations, written once. */
const sharedParameters: Readonly<Record<string, ParameterJson>> = {
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'Chosen by the client, stored permanently, scoped to the account. A retry with the same key and body gives the same result and is never charged twice. Reseller keys must send it with orders.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x20-\\x7e]+$' },
    example: '6f0b6f0e-order-1',
  },
  'X-Reseller-Customer-Id': {
    name: 'X-Reseller-Customer-Id',
    in: 'header',
    description:
      "The reseller's own id of the customer that it acts for, blanks around it taken off. Reseller keys only. What is read or changed is then that customer's alone: everything else reads as absent.",
    schema: { type: 'string', minLength: 1, maxLength: 128 },
    example: 'customer-42',
  },
  customer_id: {
    name: 'customer_id',
    in: 'query',
    description:
      'The same as the header X-Reseller-Customer-Id, for a link or a filter. Both may be sent when they name the same customer.',
    schema: { type: 'string', minLength: 1, maxLength: 128 },
    example: 'customer-42',
  },
  'X-Request-Id': {
    name: 'X-Request-Id',
    in: 'header',
    description: 'The idempotency key of the call: a retry replays the result and is never billed twice.',
    schema: { type: 'string', minLength: 1, maxLength: 128, pattern: '^[\\x20-\\x7e]+$' },
    example: 'scrape-1',
  },
}

/** Every parameter of an operation. */
export const operationParameters = (route: Route): readonly ParameterJson[] => [
  ...parametersOf(route.params, 'path', route.examples?.params),
  ...parametersOf(route.query, 'query', route.examples?.query),
  ...sharedParametersOf(route),
]

/** Only the shared parameters that a route uses: an unused component is a lint warning. */
export const usedParameters = (routes: readonly Route[]): Readonly<Record<string, ParameterJson>> => {
  const usedNames = new Set(
    routes.flatMap(sharedParametersOf).map(({ $ref }) => String($ref).split('/').at(-1)),
  )
  return Object.fromEntries(Object.entries(sharedParameters).filter(([name]) => usedNames.has(name)))
}
