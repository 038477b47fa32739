import type { Logger } from 'pino'
import { CommandOverload } from '../eventstore/commands/command.ts'
import { ApiError, refuse, refuseUntil } from './errors.ts'
import { isLogOutage, isOutage } from './outage.ts'

/** Errors of Fastify's body reader that a client causes. */
const readerRefusals: Readonly<Record<string, () => ApiError>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => unsupportedMediaType(),
}

export const unsupportedMediaType = (): ApiError =>
  refuse(
    'unsupported_media_type',
    'the body must be sent as Content-Type: application/json in UTF-8, without a Content-Encoding',
  )

/** Thrown by a bounded wait of the read side; it and `CommandOverload` say when to come back. */
type Waiting = { readonly name: string; readonly message: string; readonly retryAfterS: number }

const isWaiting = (error: unknown): error is Waiting =>
  error instanceof CommandOverload ||
  (error instanceof Error && 'retryAfterS' in error && typeof error.retryAfterS === 'number')

/** Node's own error for a request whose client went away in the middle of its body. */
const isAbort = (error: unknown): boolean =>
  error instanceof Error && error.message === 'aborted' && (error as { code?: unknown }).code === 'ECONNRESET'

/** Told without the request's id: it is one trouble, and the log counts how many requests met it. */
const outage = (error: unknown, logger: Logger): ApiError => {
  const away = isLogOutage(error) ? 'log' : 'database'
  logger.warn({ err: error }, `the ${away} does not answer`)
  return refuseUntil('overloaded', `the service cannot reach its ${away}; try again`, 1)
}

/**
 * The refusal that an error becomes: itself, 503 for an outage that a retry outlives, or 500 `internal_error` for a
 * bug, which is logged with its stack and the request id; the client sees the request id only.
 */
export const refusalOf = (error: unknown, logger: Logger, requestId: string): ApiError => {
  if (error instanceof ApiError) return error
  if (isWaiting(error)) return refuseUntil('overloaded', error.message, error.retryAfterS)
  const code = (error as { code?: unknown } | null)?.code
  const known =
    typeof code === 'string' && Object.hasOwn(readerRefusals, code) ? readerRefusals[code] : undefined
  if (known !== undefined) return known()
  if (isAbort(error)) return refuse('invalid_body', 'the connection ended before the body did')
  if (isOutage(error)) return outage(error, logger)
  logger.error({ requestId, err: error }, 'a handler failed')
  return refuse('internal_error', 'the service failed to answer; send the request id to the operator')
}
