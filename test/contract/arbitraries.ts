import fc, { anyChar } from '../support/fast-check.ts'

export type Schema = {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: Schema | boolean
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly format?: string
}

export type Pools = Readonly<Record<string, readonly unknown[]>>

/** Inputs for reading a schema: the document's components, and live values by field name. */
export type SchemaContext = {
  readonly schemas: Readonly<Record<string, Schema>>
  readonly pools: Pools
}

/** Deeper values of a recursive schema are null. */
const maxDepth = 4

const anyText = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: 'grapheme', maxLength: 12 }),
  fc.string({ unit: anyChar, maxLength: 12 }),
)

const textOf = ({ pattern, format, minLength = 0, maxLength = 64 }: Schema): fc.Arbitrary<unknown> => {
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern))
  if (format === 'date-time' || format === 'date')
    return fc
      .date({
        min: new Date('1990-01-01T00:00:00.000Z'),
        max: new Date('2100-01-01T00:00:00.000Z'),
        noInvalidDate: true,
      })
      .map((date) => date.toISOString().slice(0, format === 'date' ? 10 : undefined))
  return anyText.filter((text) => text.length >= minLength && text.length <= maxLength)
}

const integerOf = ({ minimum = -1000, maximum = Number.MAX_SAFE_INTEGER }: Schema) =>
  fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: minimum, max: Math.min(maximum, minimum + 20) }) },
    { weight: 1, arbitrary: fc.integer({ min: minimum, max: Math.min(maximum, 2 ** 31 - 1) }) },
    { weight: 1, arbitrary: fc.constantFrom(minimum, maximum) },
  )

const plainOf = (schema: Schema, context: SchemaContext, depth: number): fc.Arbitrary<unknown> => {
  if (depth > maxDepth) return fc.constant(null)
  if (schema.$ref !== undefined)
    return plainOf(context.schemas[schema.$ref.split('/').at(-1) ?? ''] ?? {}, context, depth + 1)
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return fc.oneof(...choices.map((choice) => plainOf(choice, context, depth + 1)))
  const { type } = schema
  if (typeof type === 'object')
    return fc.oneof(...type.map((one) => plainOf({ ...schema, type: one }, context, depth)))
  if (type === 'string') return textOf(schema)
  if (type === 'integer') return integerOf(schema)
  if (type === 'number') return fc.double({ noNaN: true, noDefaultInfinity: true })
  if (type === 'boolean') return fc.boolean()
  if (type === 'null') return fc.constant(null)
  if (type === 'array')
    return fc.array(arbitraryOf(schema.items ?? {}, context, depth + 1), {
      minLength: schema.minItems ?? 0,
      maxLength: Math.min(schema.maxItems ?? 4, 4),
    })
  if (schema.properties !== undefined)
    return fc.record(
      Object.fromEntries(
        Object.entries(schema.properties).map(([name, field]) => [
          name,
          arbitraryOf(field, context, depth + 1, name),
        ]),
      ),
      { requiredKeys: [...(schema.required ?? [])] },
    )
  if (type === 'object')
    return fc.dictionary(
      fc.oneof(fc.constantFrom('country', 'period_days', 'carrier_id'), fc.string({ maxLength: 8 })),
      typeof schema.additionalProperties === 'object'
        ? arbitraryOf(schema.additionalProperties, context, depth + 1)
        : fc.jsonValue({ maxDepth: 1 }),
      { maxKeys: 4 },
    )
  return fc.jsonValue({ maxDepth: 2 })
}

/** Values that fit a schema of the document; a field with live values mostly has one of them. */
export const arbitraryOf = (
  schema: Schema,
  context: SchemaContext,
  depth = 0,
  name = '',
): fc.Arbitrary<unknown> => {
  const plain = plainOf(schema, context, depth)
  const pool = context.pools[name] ?? []
  return pool.length === 0
    ? plain
    : fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...pool) }, { weight: 1, arbitrary: plain })
}

/** Values that break programs. */
export const hostileValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    '',
    ' ',
    '1',
    'NaN',
    'Infinity',
    '\u0000',
    'a\u0000b',
    '\ud800',
    'x\udfff',
    '__proto__',
    'constructor',
    "'; drop table read.orders; --",
    '../../etc/passwd',
    '%{7*7}',
    'x'.repeat(5_000),
    0,
    -0,
    -1,
    0.5,
    1e21,
    1e308,
    -1e308,
    5e-324,
    2 ** 31,
    2 ** 53,
    2 ** 53 - 1,
    -(2 ** 63),
    [],
    {},
    [[[[[[[[[[]]]]]]]]]],
  ),
  fc.jsonValue(),
)

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Any JSON value as a text. */
export const textOfValue = (value: unknown): string =>
  typeof value === 'string' ? value : (JSON.stringify(value) ?? '')

type Flaw = {
  readonly at: number
  readonly how: 'drop' | 'add' | 'change' | 'text' | 'array' | 'more'
  readonly inside: boolean
  readonly hostile: unknown
}

const flaw: fc.Arbitrary<Flaw> = fc.record({
  at: fc.nat({ max: 20 }),
  how: fc.constantFrom('drop', 'add', 'change', 'text', 'array', 'more'),
  inside: fc.boolean(),
  hostile: hostileValue,
})

const spoil = (value: unknown, { at, how, inside, hostile }: Flaw): unknown => {
  if (!isObject(value)) return hostile
  const names = Object.keys(value)
  const deep = names.find((name) => isObject(value[name]))
  if (inside && deep !== undefined)
    return { ...value, [deep]: spoil(value[deep], { at, how, inside, hostile }) }
  const name = names[at % Math.max(1, names.length)] ?? 'field'
  const { [name]: chosen, ...rest } = value
  if (how === 'drop') return rest
  if (how === 'add') return { ...value, [typeof hostile === 'string' ? hostile : 'colour']: hostile }
  if (how === 'text') return { ...value, [name]: textOfValue(chosen) }
  if (how === 'array') return { ...value, [name]: [chosen] }
  if (how === 'more')
    return { ...value, [name]: typeof chosen === 'number' ? chosen + 1 : `${textOfValue(chosen)}x` }
  return { ...value, [name]: hostile }
}

/** A value with one thing wrong: a field gone, one too many, one with another value, or its text as something else. */
export const nearMissOf = (good: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.tuple(good, flaw).map(([value, wrong]) => spoil(value, wrong))

/** Bodies that are no JSON, or hardly. */
export const hostileBody: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    '',
    '{',
    'null',
    '[]',
    '"text"',
    '1e999',
    '\ufeff{}',
    '{"quantity":1e999}',
    '{"quantity":1,"quantity":2}',
    '{"quantity":5.0000000000000001}',
    '{"label":"\\ud800"}',
    '{"label":"\\u0000"}',
    '{"__proto__":{"quantity":1},"constructor":{}}',
    '['.repeat(20_000),
    '{"a":'.repeat(20_000),
    `{"label":"${'x'.repeat(300_000)}"}`,
    `{"fulfillment_meta":${'{"country":'.repeat(2_000)}1${'}'.repeat(2_000)}}`,
  ),
  fc.string({ unit: fc.constantFrom(...'{}[]":,\\u0dD8e1.-'), maxLength: 40 }),
  fc.jsonValue().map((value) => JSON.stringify(value)),
)

export const headerText: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'ab 1,"\u00e9\u00ff'), maxLength: 20 }),
  fc.constant('x'.repeat(300)),
)
