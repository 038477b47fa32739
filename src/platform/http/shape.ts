import type { z } from 'zod'
import type { ErrorCode } from './error-table.ts'
import { ApiError } from './errors.ts'
import type { JsonSchema } from './json-schema.ts'
import { jsonSchemaOf, resolved } from './json-schema.ts'
import type { FieldCode, FieldCodes } from './route.ts'
import { inWords, shapeOf } from './shape-text.ts'

export type Checked<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly refusal: ApiError }

/** Checks a value against a schema; every failure becomes one refusal, the first by the order of checks. */
export type ShapeCheck<Value = unknown> = (value: unknown) => Checked<Value>

type Path = readonly PropertyKey[]
type Kind = 'missing' | 'type' | 'value' | 'unknown'
type Finding = { readonly code: ErrorCode; readonly message: string }

/**
 * Codes that come after the forms of the headers and the known key (docs/http-api.md, "Order of checks"): product, then
 * quantity, then targeting.
 */
const lateCodes: readonly ErrorCode[] = [
  'missing_product',
  'unknown_product',
  'invalid_quantity',
  'invalid_targeting',
  'invalid_country',
  'invalid_period',
]
export const isLate = (code: ErrorCode): boolean => lateCodes.includes(code)

const firstCodes: readonly ErrorCode[] = ['unknown_field', 'invalid_body', 'invalid_parameter']

/** Unknown fields, then wrong types, then the codes of fields, `unsupported_method` last of these, then the late ones. */
const rank = (code: ErrorCode): number => {
  const first = firstCodes.indexOf(code)
  if (first >= 0) return first
  const late = lateCodes.indexOf(code)
  if (late >= 0) return 20 + late
  return code === 'unsupported_method' ? 11 : 10
}

const fieldName = (path: Path): string => path.map(String).join('.')
const mappedPath = (path: Path): string => fieldName(path.filter((part) => typeof part === 'string'))

const valueAt = (root: unknown, path: Path): unknown => {
  let value = root
  for (const part of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined
    value = (value as Record<PropertyKey, unknown>)[part]
  }
  return value
}

const schemaAt = (root: JsonSchema, path: Path): JsonSchema | undefined => {
  let schema: JsonSchema | undefined = root
  for (const part of path) {
    const node: JsonSchema | undefined = schema && objectOf(resolved(schema, root), root)
    schema = typeof part === 'number' ? node?.items : node?.properties?.[String(part)]
  }
  return schema
}

/** Of a nullable object, the object. */
const objectOf = (schema: JsonSchema, root: JsonSchema): JsonSchema => {
  const choices = schema.anyOf ?? schema.oneOf
  const object = choices
    ?.map((choice) => resolved(choice, root))
    .find((choice) => choice.properties ?? choice.items)
  return object ?? schema
}

const kindOf = (issue: z.core.$ZodIssue, value: unknown): Kind => {
  if (issue.code === 'unrecognized_keys') return 'unknown'
  if (value === undefined || value === null) return 'missing'
  if (issue.code === 'invalid_type') {
    const numeric = issue.expected === 'int' || issue.expected === 'number'
    return numeric && typeof value === 'number' ? 'value' : 'type'
  }
  if (issue.code === 'invalid_value') return typeof value === typeof issue.values[0] ? 'value' : 'type'
  return issue.code === 'invalid_union' ? 'type' : 'value'
}

const pick = (code: FieldCode, kind: Kind): ErrorCode | undefined =>
  typeof code === 'string' ? code : code[kind]

/** The code of the field, or of the nearest field around it that has one: what is wrong inside is its value. */
const codeOf = (codes: FieldCodes, path: Path, kind: Kind): ErrorCode | undefined => {
  for (let length = path.length; length > 0; length--) {
    const name = mappedPath(path.slice(0, length))
    if (!Object.hasOwn(codes, name)) continue
    const own = length === path.length || kind === 'unknown'
    const code = pick(codes[name] as FieldCode, own ? kind : 'value')
    if (code !== undefined) return code
  }
  return undefined
}

type Words = { readonly codes: FieldCodes; readonly schema: JsonSchema; readonly place: 'body' | 'query' }

const unknownField = (issue: { keys: string[]; path: PropertyKey[] }, words: Words): Finding => {
  const accepted = Object.keys(
    objectOf(resolved(schemaAt(words.schema, issue.path) ?? {}, words.schema), words.schema).properties ?? {},
  )
  const named = issue.keys.map((key) => JSON.stringify(fieldName([...issue.path, key]))).join(', ')
  const list = accepted.length === 0 ? 'none' : accepted.join(', ')
  const of = issue.path.length === 0 ? '' : ` of ${fieldName(issue.path)}`
  return {
    code: codeOf(words.codes, issue.path, 'unknown') ?? 'unknown_field',
    message: `unknown field ${named}; accepted fields${of}: ${list}`,
  }
}

const finding = (issue: z.core.$ZodIssue, value: unknown, words: Words): Finding => {
  if (issue.code === 'unrecognized_keys') return unknownField(issue, words)
  const at = valueAt(value, issue.path)
  const kind = kindOf(issue, at)
  const code = codeOf(words.codes, issue.path, kind)
  const name = issue.path.length === 0 ? `the ${words.place}` : fieldName(issue.path)
  const must =
    issue.code === 'custom'
      ? issue.message
      : `must be ${inWords(schemaAt(words.schema, issue.path), words.schema)}`
  const message = `${name}${at === undefined ? ' is missing: it' : ''} ${must}${at === null ? ', got null' : ''}`
  if (code !== undefined) return { code, message }
  if (words.place === 'query') return { code: 'invalid_parameter', message }
  return { code: 'invalid_body', message: showingShape(message, words.schema) }
}

/** docs/http-api.md, "Errors": the message of `invalid_body` includes the expected shape. */
const showingShape = (message: string, schema: JsonSchema): string =>
  `${message}; expected shape: ${shapeOf(schema)}`

const firstOf = (issues: readonly z.core.$ZodIssue[], value: unknown, words: Words): ApiError => {
  const findings = issues.map((issue) => finding(issue, value, words))
  const first = findings.reduce((best, next) => (rank(next.code) < rank(best.code) ? next : best))
  return new ApiError(first.code, first.message)
}

/**
 * A check of bodies or queries against a zod schema, with the codes that single fields have in place of
 * `invalid_body` and `invalid_parameter`. The messages name the field and what is accepted.
 */
export const shapeCheck = <Schema extends z.ZodType>(
  schema: Schema,
  place: 'body' | 'query',
  codes: FieldCodes = {},
): ShapeCheck<z.output<Schema>> => {
  const words: Words = { codes, place, schema: jsonSchemaOf(schema, 'input', true) }
  return (value) => {
    const result = schema.safeParse(value)
    if (result.success) return { ok: true, value: result.data }
    return { ok: false, refusal: firstOf(result.error.issues, value, words) }
  }
}

/** A refusal of bytes that could not be read as JSON, as the route of this body gives it: with the expected shape. */
export const shapeShown = (schema: z.ZodType) => {
  const json = jsonSchemaOf(schema, 'input')
  return (refusal: ApiError): ApiError =>
    refusal.code === 'invalid_body'
      ? new ApiError('invalid_body', showingShape(refusal.message, json))
      : refusal
}
