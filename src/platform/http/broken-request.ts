import type { Socket } from 'node:net'
import { baseHeaders } from './answer.ts'
import type { HangUp } from './hang-up.ts'
import { jsonText } from './json-bytes.ts'
import { newRequestId } from './request-id.ts'
import type { Unanswered } from './unanswered.ts'

const statuses: Readonly<Record<string, readonly [status: number, text: string, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'the request was not sent in time'],
  HPE_HEADER_OVERFLOW: [
    431,
    'Request Header Fields Too Large',
    'the request line and headers are above 16 KiB',
  ],
}

const malformed = [400, 'Bad Request', 'this is not a valid HTTP/1.1 request'] as const

const answerTo = (error: NodeJS.ErrnoException): string => {
  const [status, text, message] = statuses[error.code ?? ''] ?? malformed
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
 * Answers bytes that are no HTTP request, or came too late to be one, in the form of every error, and hangs up. No route
 * sees them. Where whole requests came before them, these are answered and the bytes are not: an answer out of turn would
 * be taken for that of the request before. Node tells of a connection again with each chunk that follows.
 */
export const answerBrokenRequest = (hangUp: HangUp, unanswered: Unanswered) => {
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
