import { z } from 'zod'

/** A JSON Schema (draft 2020-12) as far as this API uses it. */
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
  /** What a value must be, in words that follow "must be". */
  readonly words?: string
  readonly [keyword: string]: unknown
}

type Mutable = Record<string, unknown>

/** The bounds that zod writes for every safe integer say nothing to a reader. */
const dropSafeBounds = (schema: Mutable): void => {
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
}

/** zod writes a pattern of hundreds of characters beside each format that it checks itself. */
const dropFormatPattern = (schema: Mutable): void => {
  if (schema.format !== undefined) delete schema.pattern
}

/** The default of a number in a query is written as the text that it is read from. */
const readDefault = (schema: Mutable): void => {
  if (schema.type === 'integer' && typeof schema.default === 'string') schema.default = Number(schema.default)
}

/** `meta({ override })` replaces what zod would write, for schemas that read a text into something else. */
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

/** What zod names by itself is `z.json()`, which refers to itself: any JSON value. */
const unnamed = '__schema'

const withAnyJson = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(withAnyJson)
  if (typeof value !== 'object' || value === null) return value
  const { $ref, ...rest } = value as Mutable
  if (typeof $ref === 'string' && $ref.startsWith(`#/$defs/${unnamed}`)) return rest
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withAnyJson(inner)]))
}

/**
 * The JSON Schema of a zod schema: `input` is what a client sends, `output` what it gets. Schemas with
 * `.meta({ id })` stand in `$defs` under that id. `.meta({ words })` says what a text of a form of its own must be, for
 * the messages of refusals: it is no keyword of JSON Schema, and left out unless `withWords`.
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
  const named = Object.entries($defs).filter(([name]) => !name.startsWith(unnamed))
  return withAnyJson({ ...json, ...(named.length > 0 && { $defs: Object.fromEntries(named) }) }) as JsonSchema
}

/** The schema that a reference into `$defs` means; any other schema is itself. */
export const resolveReference = (schema: JsonSchema, root: JsonSchema): JsonSchema => {
  const name = schema.$ref?.replace('#/$defs/', '')
  return name === undefined ? schema : (root.$defs?.[name] ?? {})
}

/** Makes a value when it is asked for first, and once; a failure is forgotten, so that the next one tries again. */
export const onDemand = <Value>(make: () => Promise<Value>): (() => Promise<Value>) => {
  let made: Promise<Value> | null = null
  return () => {
    made ??= make().catch((error) => {
      made = null
      throw error
    })
    return made
  }
}
