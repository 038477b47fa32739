import type { Failure } from '../../domain/exits/connection-failures.ts'
import { discardHandler } from '../accept/buffered-socket.ts'
import type { Client } from '../accept/client-connection.ts'
import type { Denied } from '../gateway-ports.ts'
import { reasonOf } from '../refusals.ts'

/** An answer of the gateway itself. The connection ends after it. */
export type OwnAnswer = {
  readonly status: number
  readonly error: Failure
  readonly detail: string
  readonly retryAfterSeconds?: number
}

/** Replaces characters that are illegal in a header line. */
const headerText = (text: string): string => text.replace(/\P{ASCII}|\p{Cc}/gu, '?')

const answerBytes = (
  { status, error, detail, retryAfterSeconds }: OwnAnswer,
  requestId: string,
  withBody: boolean,
): string => {
  const body = `${JSON.stringify({ error: detail, requestId })}\n`
  return [
    `HTTP/1.1 ${status} ${reasonOf(status)}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    `X-Proxy-Error: ${headerText(error)}`,
    `X-Proxy-Detail: ${headerText(detail)}`,
    `X-Request-Id: ${requestId}`,
    ...(status === 407 ? ['Proxy-Authenticate: Basic realm="proxy", charset="UTF-8"'] : []),
    ...(retryAfterSeconds === undefined ? [] : [`Retry-After: ${Math.ceil(retryAfterSeconds)}`]),
    'Connection: close',
    'Proxy-Connection: close',
    '',
    withBody ? body : '',
  ].join('\r\n')
}

/** A refused client that sends more than this gets a reset, bytes. */
const lingerBytes = 262_144

/**
 * Answers and ends the connection. Reads and drops further bytes of the client for `lingerMs` milliseconds. Closing at
 * once would reset the connection, and the client would never receive the answer.
 */
export const answerAndEnd = (
  client: Client,
  answer: OwnAnswer | Denied,
  lingerMs: number,
  withBody = true,
): void => {
  const { wire, watch } = client
  const { socket } = wire
  const requestId = client.refused(answer.status, answer.error)
  watch.within(lingerMs, () => socket.destroy())
  let receivedBytes = 0
  wire.use({
    ...discardHandler,
    bytes: ({ length }) => {
      receivedBytes += length
      if (receivedBytes > lingerBytes) socket.destroy()
      return true
    },
  })
  socket.end(answerBytes(answer, requestId, withBody), 'utf8')
}
