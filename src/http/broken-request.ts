import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { baseHeaders } from './answer.ts'
import { type ApiError, errorBody, refuse } from './errors.ts'
import { newRequestId } from './request-id.ts'

const refusals: Readonly<Record<string, () => ApiError>> = {
  ERR_HTTP_REQUEST_TIMEOUT: () => refuse('request_timeout', 'the request was not sent in time'),
  HPE_HEADER_OVERFLOW: () => refuse('headers_too_large', 'the request line and headers are above 16 KiB'),
}

const malformed = (): ApiError => refuse('invalid_request', 'this is not a valid HTTP/1.1 request')

/** Answers bytes that are no HTTP request, which no route ever sees, in the form of every error, and hangs up. */
export const answerBrokenRequest = (error: NodeJS.ErrnoException, socket: Socket): void => {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const refusal = (refusals[error.code ?? ''] ?? malformed)()
  const requestId = newRequestId()
  const body = errorBody(refusal, requestId)
  const headers = {
    ...baseHeaders(requestId),
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}\r\n${lines.join('')}\r\n${body}`)
}
