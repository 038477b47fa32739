import { z } from 'zod'

/** The part of JSON Schema (draft 2020-12) that this API uses. */
export type JsonSchema = {
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly items?: JsonSchema
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, JsonSchema>>
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  /** The expected value, in words that follow "must be". */
  readonly words?: string
  readonly [keyword: string]: unknown
}

type Mutable = Record<string, unknown>

/** zod writes bounds for every safe integer. They have no use for a reader. */
const dropSafeBounds = (schema: Mutable): void => {
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
}

/** zod adds a pattern of hundreds of characters to each format that it checks itself. */
const dropFormatPattern = (schema: Mutable): void => {
  if (schema.format !== undefined) delete schema.pattern
}

/** zod writes the default of a number in a query as the text that the query would contain. */
const readDefault = (schema: Mutable): void => {
  if (schema.type === 'integer' && typeof schema.default === 'string') schema.default = Number(schema.default)
}

/** `meta({ override })` replaces zod's output, for schemas that convert a text into another type. */
const applyOverride = (schema: Mutable): void => {
  const { override } = schema
  if (override === undefined) return
  const { description, id, words } = schema
  for (const key of Object.keys(schema)) delete schema[key]
  Object.assign(
    schema,
    override,
    description === undefined ? {} : { description },
    id === undefined ? {} : { id },
    words === undefined ? {} : { words },
  )
}

/** The prefix of zod's automatic names. Only `z.json()` (any JSON value) has one, because it refers to itself. */
const unnamed = '__schema'

const withAnyJson = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(withAnyJson)
  if (typeof value !== 'object' || value === null) return value
  const { $ref, ...rest } = value as Mutable
  if (typeof $ref === 'string' && $ref.startsWith(`#/$defs/${unnamed}`)) return rest
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withAnyJson(inner)]))
}

/**
 * The JSON Schema of a zod schema: `input` is the form that a client sends, `output` the form that it receives. Schemas
 * with `.meta({ id })` are in `$defs` under that id. `.meta({ words })` describes a text with a special form, for the
 * messages of refusals. It is not a JSON Schema keyword and is left out unless `withWords` is set.
 */
export const jsonSchemaOf = (schema: z.ZodType, io: 'input' | 'output', withWords = false): JsonSchema => {
  const {
    $schema: _,
    $defs = {},
    ...json
  } = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    reused: 'inline',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      const mutable = jsonSchema as Mutable
      applyOverride(mutable)
      dropSafeBounds(mutable)
      dropFormatPattern(mutable)
      readDefault(mutable)
      delete mutable.propertyNames
      if (!withWords) delete mutable.words
    },
  })
  const namedDefs = Object.entries($defs).filter(([name]) => !name.startsWith(unnamed))
  return withAnyJson({
    ...json,
    ...(namedDefs.length > 0 && { $defs: Object.fromEntries(namedDefs) }),
  }) as JsonSchema
}

/** Creates a value at its first use, once. A failure is not cached, so the next call tries again. */
export const onDemand = <Value>(make: () => Promise<Value>): (() => Promise<Value>) => {
  let cachedValue: Promise<Value> | null = null
  return () => {
    cachedValue ??= make().catch((error) => {
      cachedValue = null
      throw error
    })
    return cachedValue
  }
}
