import type { z } from 'zod'
import { declaredCodes } from '../declared-codes.ts'
import type { ErrorCode } from '../error-table.ts'
import { errorEntry } from '../error-table.ts'
import type { Route, RouteError } from '../route.ts'
import type { Components } from './components.ts'

type Json = Readonly<Record<string, unknown>>

const exampleRequestId = 'req_0190d0a2c1d27f0e8f6e5c4b3a291807'

/** `price_changed` is the schema `PriceChanged`. */
export const pascal = (code: string): string =>
  code.replace(/(?:^|_)([a-z])/g, (_match, letter: string) => letter.toUpperCase())

/** The body of every error: the fields of docs/http-api.md, "Errors". */
export const errorSchema: Json = {
  type: 'object',
  description: 'Every error. Branch on `code`, never on the text.',
  properties: {
    error: { type: 'string', description: 'What is wrong, for people.' },
    code: { type: 'string', description: 'What is wrong, for programs.' },
    requestId: { type: 'string', description: 'The same as the header X-Request-Id.' },
  },
  required: ['error', 'code', 'requestId'],
}

const base = { $ref: '#/components/schemas/Error' }

const narrowed = (codes: readonly ErrorCode[]): Json => ({
  allOf: [base, { type: 'object', properties: { code: { enum: codes } } }],
})

/** A code with fields of its own has a schema of its own. */
const extended = (code: ErrorCode, extra: z.ZodObject, components: Components): Json => ({
  allOf: [
    base,
    { type: 'object', properties: { code: { const: code } } },
    components.add(extra.meta({ id: `${pascal(code)}Fields` }), 'input'),
  ],
})

const schemaOf = (codes: readonly ErrorCode[], components: Components): Json => {
  const plain = codes.filter((code) => errorEntry(code).extra === undefined)
  const variants = [
    ...(plain.length === 0 ? [] : [narrowed(plain)]),
    ...codes.flatMap((code) => {
      const { extra } = errorEntry(code)
      return extra === undefined ? [] : [extended(code, extra, components)]
    }),
  ]
  return variants.length === 1 ? (variants[0] ?? {}) : { oneOf: variants }
}

/** The first sentence of the help text, as a message would put it. */
const defaultMessage = (code: ErrorCode): string => {
  const first = errorEntry(code).help.split(/\. |\.$|; /, 1)[0] ?? ''
  return first.charAt(0).toLowerCase() + first.slice(1)
}

const exampleOf = (code: ErrorCode, errors: readonly RouteError[]): Json => {
  const told = errors.find((error) => typeof error !== 'string' && error.code === code)
  const { message, extra } = typeof told === 'object' ? told : {}
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

const retries = (status: number): boolean => status === 429 || status === 503

const headersOf = (status: number): Json => ({
  'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
  ...(retries(status) ? { 'Retry-After': { $ref: '#/components/headers/Retry-After' } } : {}),
})

const responseOf = (
  status: number,
  codes: readonly ErrorCode[],
  errors: readonly RouteError[],
  components: Components,
): Json => ({
  description: codes.map((code) => `\`${code}\`: ${errorEntry(code).help}`).join('\n\n'),
  headers: headersOf(status),
  content: {
    'application/json': {
      schema: schemaOf(codes, components),
      examples: Object.fromEntries(codes.map((code) => [code, exampleOf(code, errors)])),
    },
  },
})

/** Answers that read the same on every operation, written once: `components.responses`. */
const shared: readonly ErrorCode[] = [
  'unauthorized',
  'payload_too_large',
  'unsupported_media_type',
  'rate_limited',
  'overloaded',
]

export const sharedResponses = (components: Components): Readonly<Record<string, Json>> =>
  Object.fromEntries(
    shared.map((code) => [pascal(code), responseOf(errorEntry(code).status, [code], [], components)]),
  )

/** The error answers of an operation by status. */
export const errorResponses = (route: Route, components: Components): Readonly<Record<string, Json>> => {
  const byStatus = Map.groupBy(declaredCodes(route), (code) => errorEntry(code).status)
  return Object.fromEntries(
    [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, codes]) => {
        const [only] = codes
        const common = codes.length === 1 && only !== undefined && shared.includes(only)
        if (common) return [String(status), { $ref: `#/components/responses/${pascal(only)}` }]
        const response = responseOf(status, codes, route.errors, components)
        const { errorsAs: name } = route
        return [
          String(status),
          name === undefined ? response : components.share(`${name}${status}`, response),
        ]
      }),
  )
}
