import type { z } from 'zod'
import { pluralize } from '../../kernel/formats.ts'
import type { ErrorCode } from './errors.ts'
import { ApiError } from './errors.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'
import type { FieldCode, FieldCodes } from './route.ts'

/** Resolves a reference into `$defs`. A schema without a reference is returned as it is. */
const resolveReference = (schema: JsonSchema, root: JsonSchema): JsonSchema => {
  const name = schema.$ref?.replace('#/$defs/', '')
  return name === undefined ? schema : (root.$defs?.[name] ?? {})
}

const bounds = ({ minimum, maximum }: JsonSchema): string => {
  if (minimum !== undefined && maximum !== undefined) return ` from ${minimum} to ${maximum}`
  if (minimum !== undefined) return ` of at least ${minimum}`
  return maximum === undefined ? '' : ` of at most ${maximum}`
}

const nouns: Readonly<Record<string, string>> = {
  string: 'a text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

const lengths = (
  min: number | undefined,
  max: number | undefined,
  unit: readonly [one: string, more: string],
): string => {
  if (min !== undefined && max !== undefined)
    return min === max ? ` of ${pluralize(max, ...unit)}` : ` of ${min} to ${pluralize(max, ...unit)}`
  if (max !== undefined) return ` of at most ${pluralize(max, ...unit)}`
  return min === undefined ? '' : ` of at least ${pluralize(min, ...unit)}`
}

const entries = ['entry', 'entries'] as const
const characters = ['character', 'characters'] as const

/** The expected value in words: `a whole number of at least 1`, `one of wallet, card`. */
const describeSchema = (schema: JsonSchema | undefined, root: JsonSchema): string => {
  if (schema === undefined) return 'a documented value'
  const node = resolveReference(schema, root)
  if (node.words !== undefined) return node.words
  if (node.enum !== undefined) return `one of ${node.enum.join(', ')}`
  if (node.const !== undefined) return JSON.stringify(node.const)
  const choices = node.anyOf ?? node.oneOf
  if (choices !== undefined) return choices.map((choice) => describeSchema(choice, root)).join(' or ')
  const types = typeof node.type === 'string' ? [node.type] : (node.type ?? [])
  if (types.length === 0) return 'a documented value'
  return types.map((type) => `${nouns[type] ?? type}${detail(type, node)}`).join(' or ')
}

const detail = (type: string, node: JsonSchema): string => {
  if (type === 'integer' || type === 'number') return bounds(node)
  if (type === 'array') return lengths(node.minItems, node.maxItems, entries)
  if (type !== 'string') return ''
  if (typeof node.format === 'string') return ` in the form ${node.format}`
  if (typeof node.pattern === 'string') return ` that matches ${node.pattern}`
  return lengths(node.minLength, node.maxLength, characters)
}

/** The expected shape of a body on one line: `{"product_id": text, "quantity": whole number, "method"?: "wallet" | "card"}`. */
const shapeOf = (schema: JsonSchema, root: JsonSchema = schema): string => {
  const node = resolveReference(schema, root)
  if (node.enum !== undefined) return node.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (node.const !== undefined) return JSON.stringify(node.const)
  const choices = node.anyOf ?? node.oneOf
  if (choices !== undefined) return choices.map((choice) => shapeOf(choice, root)).join(' | ')
  if (node.properties !== undefined) return `{${members(node, root)}}`
  if (node.items !== undefined) return `[${shapeOf(node.items, root)}]`
  if (typeof node.type === 'string') return node.type
  return node.type?.join(' | ') ?? 'value'
}

const members = (node: JsonSchema, root: JsonSchema): string =>
  Object.entries(node.properties ?? {})
    .map(([name, member]) => `"${name}"${node.required?.includes(name) ? '' : '?'}: ${shapeOf(member, root)}`)
    .join(', ')

export type Checked<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly refusal: ApiError }

/** Checks a value against a schema. Several failures become one refusal: the first by the order of checks. */
export type ShapeCheck<Value = unknown> = (value: unknown) => Checked<Value>

type Path = readonly PropertyKey[]
type Kind = 'missing' | 'type' | 'value' | 'unknown'
type Finding = { readonly code: ErrorCode; readonly message: string }

/**
 * Codes that are checked after the forms of the headers and the known key (docs/reference/api.md, "Order of checks"):
 * product, then quantity, then targeting.
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

/** The order: unknown fields, wrong types, the codes of fields with `unsupported_method` last, the late codes. */
const rank = (code: ErrorCode): number => {
  const first = firstCodes.indexOf(code)
  if (first >= 0) return first
  const lateIndex = lateCodes.indexOf(code)
  if (lateIndex >= 0) return 20 + lateIndex
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
    const node: JsonSchema | undefined = schema && objectOf(resolveReference(schema, root), root)
    schema = typeof part === 'number' ? node?.items : node?.properties?.[String(part)]
  }
  return schema
}

/** The object choice of a nullable object. */
const objectOf = (schema: JsonSchema, root: JsonSchema): JsonSchema => {
  const choices = schema.anyOf ?? schema.oneOf
  const object = choices
    ?.map((choice) => resolveReference(choice, root))
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

/** The code of the field, or of its nearest parent that has one. For the parent, a failure inside is a bad value. */
const codeOf = (codes: FieldCodes, path: Path, kind: Kind): ErrorCode | undefined => {
  for (let length = path.length; length > 0; length--) {
    const name = mappedPath(path.slice(0, length))
    if (!Object.hasOwn(codes, name)) continue
    const isOwnCode = length === path.length || kind === 'unknown'
    const code = pick(codes[name] as FieldCode, isOwnCode ? kind : 'value')
    if (code !== undefined) return code
  }
  return undefined
}

type ShapeContext = {
  readonly codes: FieldCodes
  readonly schema: JsonSchema
  readonly location: 'body' | 'query'
}

const unknownField = (
  issue: { keys: string[]; path: PropertyKey[] },
  shapeContext: ShapeContext,
): Finding => {
  const accepted = Object.keys(
    objectOf(
      resolveReference(schemaAt(shapeContext.schema, issue.path) ?? {}, shapeContext.schema),
      shapeContext.schema,
    ).properties ?? {},
  )
  const unknownNames = issue.keys.map((key) => JSON.stringify(fieldName([...issue.path, key]))).join(', ')
  const list = accepted.length === 0 ? 'none' : accepted.join(', ')
  if (shapeContext.location === 'query')
    return {
      code: 'invalid_parameter',
      message: `unknown query parameter ${unknownNames}; accepted parameters: ${list}`,
    }
  const of = issue.path.length === 0 ? '' : ` of ${fieldName(issue.path)}`
  return {
    code: codeOf(shapeContext.codes, issue.path, 'unknown') ?? 'unknown_field',
    message: `unknown field ${unknownNames}; accepted fields${of}: ${list}`,
  }
}

const finding = (issue: z.core.$ZodIssue, value: unknown, shapeContext: ShapeContext): Finding => {
  if (issue.code === 'unrecognized_keys') return unknownField(issue, shapeContext)
  const at = valueAt(value, issue.path)
  const kind = kindOf(issue, at)
  const code = codeOf(shapeContext.codes, issue.path, kind)
  const name = issue.path.length === 0 ? `the ${shapeContext.location}` : fieldName(issue.path)
  const requirement =
    issue.code === 'custom'
      ? issue.message
      : `must be ${describeSchema(schemaAt(shapeContext.schema, issue.path), shapeContext.schema)}`
  const message = `${name}${at === undefined ? ' is missing: it' : ''} ${requirement}${at === null ? ', got null' : ''}`
  if (code !== undefined) return { code, message }
  if (shapeContext.location === 'query') return { code: 'invalid_parameter', message }
  return { code: 'invalid_body', message: showingShape(message, shapeContext.schema) }
}

/** docs/reference/api.md, "Errors": the message of `invalid_body` includes the expected shape. */
const showingShape = (message: string, schema: JsonSchema): string =>
  `${message}; expected shape: ${shapeOf(schema)}`

const firstRefusal = (
  issues: readonly z.core.$ZodIssue[],
  value: unknown,
  shapeContext: ShapeContext,
): ApiError => {
  const findings = issues.map((issue) => finding(issue, value, shapeContext))
  const first = findings.reduce((best, next) => (rank(next.code) < rank(best.code) ? next : best))
  return new ApiError(first.code, first.message)
}

const takesNull = (schema: JsonSchema, root: JsonSchema): boolean => {
  const node = resolveReference(schema, root)
  const choices = node.anyOf ?? node.oneOf
  if (choices !== undefined) return choices.some((choice) => takesNull(choice, root))
  if (node.enum !== undefined) return node.enum.includes(null)
  if (node.const !== undefined) return node.const === null
  return node.type === undefined || [node.type].flat().includes('null')
}

/**
 * The other choice of a nullable schema. A schema with several other choices, or for any JSON value, is returned as it
 * is.
 */
const onlyForm = (schema: JsonSchema, root: JsonSchema): JsonSchema => {
  const node = resolveReference(schema, root)
  const forms = (node.anyOf ?? node.oneOf)?.filter(({ type }) => type !== 'null')
  return forms?.length === 1 ? onlyForm(forms[0] as JsonSchema, root) : node
}

/**
 * Removes fields that are null although they are optional and not nullable. Serializers of .NET and Java write null for
 * an unset field. A field that is not in the schema remains, so that the check refuses it.
 */
const withoutUnset = (value: unknown, schema: JsonSchema, root: JsonSchema): unknown => {
  if (typeof value !== 'object' || value === null) return value
  const { properties, required, items } = onlyForm(schema, root)
  if (Array.isArray(value)) return items ? value.map((item) => withoutUnset(item, items, root)) : value
  if (properties === undefined) return value
  const isUnset = (name: string, property: JsonSchema): boolean =>
    !required?.includes(name) && !takesNull(property, root)
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, field]) => {
      const property = Object.hasOwn(properties, name) ? properties[name] : undefined
      if (property === undefined) return [[name, field]]
      if (field === null) return isUnset(name, property) ? [] : [[name, field]]
      return [[name, withoutUnset(field, property, root)]]
    }),
  )
}

const requestSchemas = new WeakMap<z.ZodType, JsonSchema>()

/** Creates the schema of a request at its first use, so that it does not delay the start. */
const requestSchemaOf = (schema: z.ZodType): JsonSchema => {
  const json = requestSchemas.get(schema) ?? jsonSchemaOf(schema, 'input', true)
  requestSchemas.set(schema, json)
  return json
}

/** Removes null fields that the schema declares optional and not nullable. */
export const withoutUnsetFields = (value: unknown, schema: z.ZodType): unknown => {
  const json = requestSchemaOf(schema)
  return withoutUnset(value, json, json)
}

/**
 * Checks bodies or queries against a zod schema. `codes` has the error codes of single fields, which replace
 * `invalid_body` and `invalid_parameter`. The messages name the field and the accepted values. In a body, null for an
 * optional field is the same as leaving it out.
 */
export const shapeCheck =
  <Schema extends z.ZodType>(
    schema: Schema,
    location: 'body' | 'query',
    codes: FieldCodes = {},
  ): ShapeCheck<z.output<Schema>> =>
  (received) => {
    const value = location === 'body' ? withoutUnsetFields(received, schema) : received
    const result = schema.safeParse(value)
    if (result.success) return { ok: true, value: result.data }
    const shapeContext = { codes, location, schema: requestSchemaOf(schema) }
    return { ok: false, refusal: firstRefusal(result.error.issues, value, shapeContext) }
  }

/** Adds the expected shape of the route's body to the refusal of bytes that are not readable JSON. */
export const withExpectedShape =
  (schema: z.ZodType) =>
  (refusal: ApiError): ApiError =>
    refusal.code === 'invalid_body'
      ? new ApiError('invalid_body', showingShape(refusal.message, requestSchemaOf(schema)))
      : refusal
