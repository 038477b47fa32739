import { type ErrorCode, errorEntry, errorHelp } from '../http/errors.ts'
import type { FieldCode, Route, RouteError } from '../http/route.ts'
import type { Components } from './openapi-components.ts'
import { pascal } from './schema-rules.ts'

const codesOf = (field: FieldCode): readonly ErrorCode[] =>
  typeof field === 'string' ? [field] : Object.values(field).filter((code) => code !== undefined)

const fieldCodes = (fields: Readonly<Record<string, FieldCode>> | undefined): readonly ErrorCode[] =>
  Object.values(fields ?? {}).flatMap(codesOf)

const accessCodes = ({ access, writes, unlimited }: Route): readonly ErrorCode[] => [
  ...(unlimited ? [] : (['rate_limited', 'overloaded'] as const)),
  ...(access === 'public' ? [] : (['unauthorized'] as const)),
  ...(access === 'buy' || access === 'scrape' ? (['missing_scope'] as const) : []),
  ...(access !== 'public' && access !== 'finance' && writes ? (['account_blocked'] as const) : []),
]

const bodyCodes = ({ method, codes }: Route): readonly ErrorCode[] =>
  method === 'GET'
    ? []
    : [
        'unknown_field',
        'invalid_body',
        'payload_too_large',
        'unsupported_media_type',
        ...fieldCodes(codes?.body),
      ]

const headerCodes = (route: Route): readonly ErrorCode[] => [
  ...(route.idempotencyKey === undefined ? [] : (['invalid_idempotency_key'] as const)),
  ...(route.idempotencyKey === 'required-for-resellers' ? (['idempotency_key_required'] as const) : []),
  ...(route.customer === undefined ? [] : (['invalid_customer_id', 'reseller_forbidden'] as const)),
  ...(typeof route.customer === 'object' ? [route.customer.refused] : []),
  ...(route.knownKey === undefined ? [] : (['idempotency_conflict'] as const)),
  ...(route.requestIdIsKey ? (['bad_input'] as const) : []),
]

/** Every documented operation refuses unknown query parameters (docs/reference/api.md, "Requests"). */
const parameterCodes = (route: Route): readonly ErrorCode[] => [
  'invalid_parameter',
  ...fieldCodes(route.codes?.query),
  ...(route.params === undefined ? [] : (['not_found'] as const)),
]

/** The codes of the framework for this operation, independent of its handler. */
const frameworkCodes = (route: Route): readonly ErrorCode[] => [
  ...new Set([...accessCodes(route), ...bodyCodes(route), ...headerCodes(route), ...parameterCodes(route)]),
]

/**
 * All codes that the operation can answer with, of the framework and of the handler. `internal_error` is a bug and not
 * declared.
 */
export const declaredCodes = (route: Route): readonly ErrorCode[] => [
  ...new Set([
    ...frameworkCodes(route),
    ...route.errors.map((error) => (typeof error === 'string' ? error : error.code)),
  ]),
]

type Json = Readonly<Record<string, unknown>>

const exampleRequestId = 'req_0190d0a2c1d27f0e8f6e5c4b3a291807'

/** Each extra field of the codes, with the codes that have it. */
const extraFields = (codes: readonly ErrorCode[], name: string, components: Components): Json => {
  const fields = new Map<string, { readonly schema: Json; readonly codes: ErrorCode[] }>()
  for (const code of codes) {
    const { extra } = errorEntry(code)
    if (extra === undefined) continue
    for (const [field, schema] of Object.entries(components.fields(extra, 'output', name).properties)) {
      const known = fields.get(field)
      if (known === undefined) fields.set(field, { schema, codes: [code] })
      else known.codes.push(code)
    }
  }
  return Object.fromEntries(
    [...fields].map(([field, { schema, codes: having }]) => {
      const haveIt = `With ${having.map((code) => `\`${code}\``).join(', ')}.`
      return [field, { ...schema, description: [schema.description, haveIt].filter(Boolean).join(' ') }]
    }),
  )
}

/**
 * The body of every refusal of an operation, as one object: generators make no usable type of a choice between objects
 * (docs/reference/api.md, "Errors").
 */
const errorSchema = (codes: readonly ErrorCode[], name: string, components: Components): Json =>
  components.define(name, {
    type: 'object',
    properties: {
      error: { type: 'string', description: 'What is wrong, for people.' },
      code: {
        ...components.define(`${name}Code`, { type: 'string', enum: [...codes] }),
        description: 'What is wrong, for programs.',
      },
      requestId: { type: 'string', description: 'The same as the header X-Request-Id.' },
      ...extraFields(codes, name, components),
    },
    required: ['error', 'code', 'requestId'],
  })

/** The first sentence of the meaning, in the form of a message. */
const defaultMessage = (code: ErrorCode): string => {
  const first = errorEntry(code).meaning.split(/\. |\.$/, 1)[0] ?? ''
  return first.charAt(0).toLowerCase() + first.slice(1)
}

/** The example of an error's answer: of the first declaration with its own message, or else of the error table. */
export const exampleOf = (
  code: ErrorCode,
  errors: readonly RouteError[],
): { readonly summary: ErrorCode; readonly value: Json } => {
  const declaredError = errors.find((error) => typeof error !== 'string' && error.code === code)
  const { message, extra } = typeof declaredError === 'object' ? declaredError : {}
  return {
    summary: code,
    value: {
      error: message ?? defaultMessage(code),
      code,
      requestId: exampleRequestId,
      ...(extra ?? errorEntry(code).example),
    },
  }
}

/** Codes of other statuses whose answers have a Retry-After. */
const retryCodes: ReadonlySet<ErrorCode> = new Set(['gateway_unavailable', 'provider_failed'])

const retries = (status: number, codes: readonly ErrorCode[]): boolean =>
  status === 429 || status === 503 || codes.some((code) => retryCodes.has(code))

const shared = (name: string): Json => ({ [name]: { $ref: `#/components/headers/${name}` } })

/** Header fields that the framework adds. The limit of a key is counted and reported once the key is known. */
export const frameworkHeaders = ({ access, limit }: Route, status: number): Json => ({
  ...shared('X-Request-Id'),
  ...((access !== 'public' || limit) &&
    status !== 401 && { ...shared('RateLimit'), ...shared('RateLimit-Policy') }),
})

/** Header fields of one route. */
export const ownHeaders = (headers: Readonly<Record<string, string>> = {}): Json =>
  Object.fromEntries(
    Object.entries(headers).map(([name, text]) => [name, { description: text, schema: { type: 'string' } }]),
  )

const responseOf = (schema: Json, status: number, codes: readonly ErrorCode[], route: Route): Json => ({
  description: codes.map((code) => `\`${code}\`: ${errorHelp(code)}`).join('\n\n'),
  headers: {
    ...frameworkHeaders(route, status),
    ...(retries(status, codes) && shared('Retry-After')),
    ...ownHeaders(route.errorHeaders),
  },
  content: {
    'application/json': {
      schema,
      examples: Object.fromEntries(codes.map((code) => [code, exampleOf(code, route.errors)])),
    },
  },
})

/** The error answers of an operation by status. */
export const errorResponses = (route: Route, components: Components): Readonly<Record<string, Json>> => {
  const codes = declaredCodes(route)
  const { errorsAs } = route
  const schema = errorSchema(codes, `${errorsAs ?? pascal(route.operationId)}Error`, components)
  return Object.fromEntries(
    [...Map.groupBy(codes, (code) => errorEntry(code).status)]
      .sort(([a], [b]) => a - b)
      .map(([status, some]) => {
        const response = responseOf(schema, status, some, route)
        return [
          String(status),
          errorsAs === undefined ? response : components.share(`${errorsAs}${status}`, response),
        ]
      }),
  )
}
