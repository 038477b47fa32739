import type { Socket } from 'node:net'
import { baseHeaders } from './answer.ts'
import { newRequestId } from './request-id.ts'

const statuses: Readonly<Record<string, readonly [status: number, text: string, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'the request was not sent in time'],
  HPE_HEADER_OVERFLOW: [
    431,
    'Request Header Fields Too Large',
    'the request line and headers are above 16 KiB',
  ],
}

const malformed = [400, 'Bad Request', 'this is not a valid HTTP/1.1 request'] as const

/** Answers bytes that are no HTTP request, which no route ever sees, in the form of every error, and hangs up. */
export const answerBrokenRequest = (error: NodeJS.ErrnoException, socket: Socket): void => {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const [status, text, message] = statuses[error.code ?? ''] ?? malformed
  const requestId = newRequestId()
  const body = JSON.stringify({ error: message, code: 'invalid_parameter', requestId })
  const headers = {
    ...baseHeaders(requestId),
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${text}\r\n${lines.join('')}\r\n${body}`)
}
