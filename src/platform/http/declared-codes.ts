import type { ErrorCode } from './error-table.ts'
import type { FieldCode, Route } from './route.ts'

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

/** Whether a value of the query may be bad that has no code of its own. */
const hasUncodedQuery = ({ query, codes }: Route): boolean =>
  Object.keys(query?.shape ?? {}).some((name) => typeof codes?.query?.[name] !== 'string')

/**
 * Every operation with a key takes `X-Farebox-Position`, and every query value may be bad: all of them can answer 400
 * (docs/http-api.md, "Requests").
 */
const parameterCodes = (route: Route): readonly ErrorCode[] => [
  ...(hasUncodedQuery(route) || route.access !== 'public' ? (['invalid_parameter'] as const) : []),
  ...fieldCodes(route.codes?.query),
  ...(route.params === undefined ? [] : (['not_found'] as const)),
]

/** Codes that the framework gives by itself on this operation, whatever its handler does. */
const frameworkCodes = (route: Route): readonly ErrorCode[] => [
  ...new Set([...accessCodes(route), ...bodyCodes(route), ...headerCodes(route), ...parameterCodes(route)]),
]

/** Every code that the operation can answer with: the framework's and the handler's. `internal_error` is a bug and no contract. */
export const declaredCodes = (route: Route): readonly ErrorCode[] => [
  ...new Set([
    ...frameworkCodes(route),
    ...route.errors.map((error) => (typeof error === 'string' ? error : error.code)),
  ]),
]
