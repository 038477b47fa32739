import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import { CommandOverload } from '../commands/command.ts'
import { isLogOutage, isOutage } from '../eventstore/errors.ts'
import { isOfOtherVersion } from '../postgres/errors.ts'
import { baseHeaders } from './answer.ts'
import type { HangUp, PendingResponses } from './close-connection.ts'
import { ApiError, refuse, refuseWithRetryAfter } from './errors.ts'
import { newRequestId } from './headers.ts'
import { jsonText } from './json-bytes.ts'

const statuses: Readonly<Record<string, readonly [status: number, text: string, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'the request was not sent in time'],
  HPE_HEADER_OVERFLOW: [
    431,
    'Request Header Fields Too Large',
    'the request line and headers are above 16 KiB',
  ],
}

const malformedRequest = [400, 'Bad Request', 'this is not a valid HTTP/1.1 request'] as const

const answerTo = (error: NodeJS.ErrnoException): string => {
  const [status, text, message] = statuses[error.code ?? ''] ?? malformedRequest
  const requestId = newRequestId()
  const body = jsonText({ error: message, code: 'invalid_parameter', requestId })
  const headers = {
    ...baseHeaders(requestId),
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${text}\r\n${lines.join('')}\r\n${body}`
}

/**
 * Returns a listener for bytes that are not a valid HTTP request, or that arrived too late to be one. It answers them
 * in the usual error form and closes the connection. No route receives such bytes. If the connection has unanswered
 * requests, these are answered and the bytes are not: a client would match an early answer to an earlier request. Node
 * calls the listener again for each later chunk of the connection.
 */
export const answerBrokenRequest = (hangUp: HangUp, unanswered: PendingResponses) => {
  const ending = new WeakSet<Socket>()
  return (error: NodeJS.ErrnoException, socket: Socket): void => {
    if (error.code === 'ECONNRESET') return void socket.destroy()
    if (ending.has(socket) || hangUp.has(socket)) return
    if (!socket.writable) return void socket.destroy()
    ending.add(socket)
    const before = unanswered.last(socket)
    if (before === undefined) hangUp.end(socket, answerTo(error))
    else before.once('close', () => hangUp.end(socket))
  }
}

/** Errors of Fastify's body reader that a client causes. */
const readerRefusals: Readonly<Record<string, () => ApiError>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => unsupportedMediaType(),
}

export const unsupportedMediaType = (): ApiError =>
  refuse(
    'unsupported_media_type',
    'the body must be sent as Content-Type: application/json in UTF-8, without a Content-Encoding',
  )

/** Thrown by a bounded wait of the read side. Like `CommandOverload`, it carries the seconds until a retry. */
type Waiting = { readonly name: string; readonly message: string; readonly retryAfterS: number }

const isWaiting = (error: unknown): error is Waiting =>
  error instanceof CommandOverload ||
  (error instanceof Error && 'retryAfterS' in error && typeof error.retryAfterS === 'number')

/** Node's own error for a request whose client disconnected in the middle of the body. */
const isAbort = (error: unknown): boolean =>
  error instanceof Error && error.message === 'aborted' && (error as { code?: unknown }).code === 'ECONNRESET'

/** Logs without the request id: an outage is one failure, and the log counts the requests that met it. */
const outage = (error: unknown, logger: Logger): ApiError => {
  const dependency = isLogOutage(error) ? 'log' : 'database'
  if (isOfOtherVersion(error))
    logger.error(
      { err: error },
      'a table is not as this version made it: a newer version may have made it anew',
    )
  else logger.warn({ err: error }, `the ${dependency} does not answer`)
  return refuseWithRetryAfter('overloaded', `the service cannot reach its ${dependency}; try again`, 1)
}

/**
 * Maps an error to a refusal: an `ApiError` to itself, an outage to 503, and a bug to 500 `internal_error`. A retry may
 * outlast an outage. A bug is logged with its stack and the request id. The client receives only the request id.
 */
export const refusalOf = (error: unknown, logger: Logger, requestId: string): ApiError => {
  if (error instanceof ApiError) return error
  if (isWaiting(error)) return refuseWithRetryAfter('overloaded', error.message, error.retryAfterS)
  const code = (error as { code?: unknown } | null)?.code
  const known =
    typeof code === 'string' && Object.hasOwn(readerRefusals, code) ? readerRefusals[code] : undefined
  if (known !== undefined) return known()
  if (isAbort(error)) return refuse('invalid_body', 'the connection ended before the body did')
  if (isOutage(error)) return outage(error, logger)
  logger.error({ requestId, err: error }, 'a handler failed')
  return refuse('internal_error', 'the service failed to answer; send the request id to the operator')
}
