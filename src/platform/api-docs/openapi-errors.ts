import { type ErrorCode, errorEntry, errorHelp } from '../http/errors.ts'
import type { FieldCode, Route, RouteError } from '../http/route.ts'
import type { Components } from './openapi-components.ts'

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

/** Whether the query has a value without an error code of its own. */
const hasUncodedQuery = ({ query, codes }: Route): boolean =>
  Object.keys(query?.shape ?? {}).some((name) => typeof codes?.query?.[name] !== 'string')

/**
 * Every operation with a key reads `X-Farebox-Position`, and every query value may be invalid. Both cases are answered
 * 400 (docs/reference/api.md, "Requests").
 */
const parameterCodes = (route: Route): readonly ErrorCode[] => [
  ...(hasUncodedQuery(route) || route.access !== 'public' ? (['invalid_parameter'] as const) : []),
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

/** `createOrder` becomes `CreateOrder`. */
export const capitalized = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1)

/** `price_changed` becomes `PriceChanged`. */
export const pascal = (code: string): string =>
  code.replace(/(?:^|_)([a-z])/g, (_match, letter: string) => letter.toUpperCase())

/** The fields of every error (docs/reference/api.md, "Errors"). */
const fields = {
  error: { type: 'string', description: 'What is wrong, for people.' },
  code: { type: 'string', description: 'What is wrong, for programs.' },
  requestId: { type: 'string', description: 'The same as the header X-Request-Id.' },
} as const

/** Defines the schema of a code's body and returns the reference: `price_changed` is `PriceChangedError`. */
const oneError = (code: ErrorCode, components: Components): Json => {
  const { extra } = errorEntry(code)
  const { properties = {}, required = [] } = extra === undefined ? {} : components.add(extra, 'output')
  return components.define(`${pascal(code)}Error`, {
    type: 'object',
    description: errorHelp(code),
    properties: { ...fields, code: { ...fields.code, const: code }, ...(properties as Json) },
    required: [...Object.keys(fields), ...(required as readonly string[])],
  })
}

/** The schema of a status: that of its only code, or a named choice between those of its codes. */
const schemaOf = (codes: readonly ErrorCode[], name: string, components: Components): Json => {
  const variants = codes.map((code) => oneError(code, components))
  const [single] = variants
  if (single !== undefined && variants.length === 1) return single
  const mapping = Object.fromEntries(codes.map((code, at) => [code, variants[at]?.$ref]))
  return components.define(name, { oneOf: variants, discriminator: { propertyName: 'code', mapping } })
}

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

const retries = (status: number, codes: readonly ErrorCode[]): boolean =>
  status === 429 || status === 503 || codes.includes('gateway_unavailable')

const headersOf = (status: number, codes: readonly ErrorCode[]): Json => ({
  'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
  ...(retries(status, codes) ? { 'Retry-After': { $ref: '#/components/headers/Retry-After' } } : {}),
  ...(status === 429 && {
    RateLimit: { $ref: '#/components/headers/RateLimit' },
    'RateLimit-Policy': { $ref: '#/components/headers/RateLimit-Policy' },
  }),
})

const responseOf = (
  name: string,
  status: number,
  codes: readonly ErrorCode[],
  errors: readonly RouteError[],
  components: Components,
): Json => ({
  description: codes.map((code) => `\`${code}\`: ${errorHelp(code)}`).join('\n\n'),
  headers: headersOf(status, codes),
  content: {
    'application/json': {
      schema: schemaOf(codes, name, components),
      examples: Object.fromEntries(codes.map((code) => [code, exampleOf(code, errors)])),
    },
  },
})

/** Answers that are the same for every operation, written once: `components.responses`. */
const shared: readonly ErrorCode[] = [
  'unauthorized',
  'payload_too_large',
  'unsupported_media_type',
  'rate_limited',
  'overloaded',
]

export const sharedResponses = (components: Components): Readonly<Record<string, Json>> =>
  Object.fromEntries(
    shared.map((code) => [pascal(code), responseOf('', errorEntry(code).status, [code], [], components)]),
  )

/** The error answers of an operation by status. */
export const errorResponses = (route: Route, components: Components): Readonly<Record<string, Json>> => {
  const byStatus = Map.groupBy(declaredCodes(route), (code) => errorEntry(code).status)
  return Object.fromEntries(
    [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, codes]) => {
        const [single] = codes
        const common = codes.length === 1 && single !== undefined && shared.includes(single)
        if (common) return [String(status), { $ref: `#/components/responses/${pascal(single)}` }]
        const { errorsAs: name, operationId } = route
        const choice = `${name ?? capitalized(operationId)}${status}Error`
        const response = responseOf(choice, status, codes, route.errors, components)
        return [
          String(status),
          name === undefined ? response : components.share(`${name}${status}`, response),
        ]
      }),
  )
}
