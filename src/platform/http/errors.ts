import { type ErrorCode, type ErrorExtra, errorEntry } from './error-table.ts'
import { jsonText } from './json-bytes.ts'

export type { ErrorCode, ErrorExtra } from './error-table.ts'

/** A refusal for the client. Handlers and the framework throw it, and `src/platform/http/server.ts` answers it. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly status: number
  /** Fields of the body in addition to `error`, `code` and `requestId`. */
  readonly extra: Readonly<Record<string, unknown>> | undefined
  readonly headers: Readonly<Record<string, string>> | undefined

  constructor(
    code: ErrorCode,
    message: string,
    extra?: Readonly<Record<string, unknown>>,
    headers?: Readonly<Record<string, string>>,
  ) {
    super(message)
    this.code = code
    this.status = errorEntry(code).status
    this.extra = extra
    this.headers = headers
  }
}

type ExtraArguments<Code extends ErrorCode> = [ErrorExtra<Code>] extends [never]
  ? []
  : Record<never, never> extends ErrorExtra<Code>
    ? [extra?: ErrorExtra<Code>]
    : [extra: ErrorExtra<Code>]

/**
 * Creates the refusal with this code, to be thrown: `throw refuse('not_found', 'no such order')`. The status comes from
 * the error table. The types require the fields that docs/http-api.md gives for the code. The message is for people: it
 * names the field and the accepted set, starts in lower case and has no full stop.
 */
export const refuse = <Code extends ErrorCode>(
  code: Code,
  message: string,
  ...[extra]: ExtraArguments<Code>
): ApiError => new ApiError(code, message, extra as Readonly<Record<string, unknown>> | undefined)

/** The refusal of a path that the service does not have. */
export const refuseUnknownPath = (): ApiError =>
  refuse('not_found', 'nothing has this path; /docs shows what there is')

/** A refusal with a `Retry-After` header: `retryAfterS` seconds, rounded up, at least 1. */
export const refuseWithRetryAfter = (
  code: 'rate_limited' | 'overloaded' | 'gateway_unavailable',
  message: string,
  retryAfterS: number,
): ApiError => new ApiError(code, message, undefined, { 'retry-after': retryAfterHeader(retryAfterS) })

/** Whole seconds, rounded up, at least 1 (docs/http-api.md, "Errors"). */
const retryAfterHeader = (seconds: number): string => String(Math.max(1, Math.ceil(seconds)))

/** The body of a refusal: `{error, code, requestId}` and the fields of the code (docs/http-api.md, "Errors"). */
export const errorBody = (error: ApiError, requestId: string): string =>
  jsonText({ error: error.message, code: error.code, requestId, ...error.extra })
