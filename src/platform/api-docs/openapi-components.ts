import type { z } from 'zod'
import { type JsonSchema, jsonSchemaOf } from '../http/json-schema.ts'
import { hasCustomer, type Route } from '../http/route.ts'
import { finished, named, pascal } from './schema-rules.ts'

type Json = Readonly<Record<string, unknown>>

/** The named schemas of a document, collected while its operations are written. */
export type Components = {
  /** The reference to a schema. Its name is its id, else the given name. */
  add(schema: z.ZodType, io: 'input' | 'output', name: string): Json
  /** The fields of a schema that is not defined itself. Objects and enumerations in them are named after `name`. */
  fields(
    schema: z.ZodObject,
    io: 'input' | 'output',
    name: string,
  ): { readonly properties: Readonly<Record<string, Json>>; readonly required: readonly string[] }
  /** Stores a JSON Schema under a name. Returns the reference to it. */
  define(name: string, schema: Json): Json
  readonly schemas: Readonly<Record<string, Json>>
  /** Stores a response that many operations share, under its name. Returns the reference to it. */
  share(name: string, response: Json): Json
  readonly responses: Readonly<Record<string, Json>>
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
  const definer =
    (io: 'input' | 'output') =>
    (name: string, schema: Json): Json => ({ $ref: `#/components/schemas/${keep(name, schema, io)}` })

  /** The JSON Schema with its definitions stored, and the function that finishes a part of it. */
  const read = (schema: z.ZodType, io: 'input' | 'output') => {
    const { $defs = {}, ...root }: JsonSchema = jsonSchemaOf(schema, io)
    const names = new Map<string, string>()
    const define = definer(io)
    const finish = (json: unknown): Json => finished(json, { names, io, closedAnswers })
    for (const [name, json] of Object.entries($defs))
      names.set(name, keep(name, named(finish(json), name, define), io))
    return { root, define, finish }
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
    define: definer('output'),
    add(schema, io, fallbackName) {
      const { root, define, finish } = read(schema, io)
      const { id, ...rest } = root
      if (typeof rest.$ref === 'string') return finish(rest)
      const name = typeof id === 'string' ? id : fallbackName
      return define(name, named(finish(rest), name, define))
    },
    fields(schema, io, name) {
      const { root, define, finish } = read(schema, io)
      const properties = Object.fromEntries(
        Object.entries(root.properties ?? {}).map(([key, json]) => [key, finish(json)]),
      )
      const { properties: fields } = named({ properties }, name, define)
      return { properties: fields as Readonly<Record<string, Json>>, required: root.required ?? [] }
    },
  }
}

type ParameterJson = Readonly<Record<string, unknown>>

/** The fields of a schema as parameters, with their descriptions and examples. */
const parametersOf = (
  schema: z.ZodObject | undefined,
  location: 'path' | 'query',
  { operationId, examples }: Route,
  components: Components,
): readonly ParameterJson[] => {
  if (schema === undefined) return []
  const { properties, required } = components.fields(schema, 'input', pascal(operationId))
  const values = (location === 'path' ? examples?.params : examples?.query) as
    | Readonly<Record<string, unknown>>
    | undefined
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...rest } = property
    return {
      name,
      in: location,
      required: location === 'path' || required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: rest,
      ...(values?.[name] === undefined ? {} : { example: values[name] }),
    }
  })
}

const parameter = (name: string): ParameterJson => ({ $ref: `#/components/parameters/${name}` })

const sharedParametersOf = (route: Route): readonly ParameterJson[] => [
  ...(route.idempotencyKey === undefined ? [] : [parameter('Idempotency-Key')]),
  ...(hasCustomer(route) ? [parameter('X-Reseller-Customer-Id'), parameter('customer_id')] : []),
  ...(route.requestIdIsKey ? [parameter('X-Request-Id'), parameter('Call-Idempotency-Key')] : []),
]

const callIdSchema = { type: 'string', minLength: 1, maxLength: 128, pattern: '^[\\x20-\\x7e]+$' }

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
    schema: callIdSchema,
    example: 'scrape-1',
  },
  'Call-Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    description: 'The same as `X-Request-Id`. If both are sent, they must have the same value.',
    schema: callIdSchema,
    example: 'scrape-1',
  },
}

/** Every parameter of an operation. */
export const operationParameters = (route: Route, components: Components): readonly ParameterJson[] => [
  ...parametersOf(route.params, 'path', route, components),
  ...parametersOf(route.query, 'query', route, components),
  ...sharedParametersOf(route),
]

/** Only the shared parameters that a route uses: an unused component is a lint warning. */
export const usedParameters = (routes: readonly Route[]): Readonly<Record<string, ParameterJson>> => {
  const usedNames = new Set(
    routes.flatMap(sharedParametersOf).map(({ $ref }) => String($ref).split('/').at(-1)),
  )
  return Object.fromEntries(Object.entries(sharedParameters).filter(([name]) => usedNames.has(name)))
}
