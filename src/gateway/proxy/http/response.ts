import { type Framing, framingOf } from './body.ts'
import { BadMessage, type Head } from './head.ts'
import { type Connection, connectionOf } from './hop-by-hop.ts'

export type Response = {
  readonly status: number
  /** Its reason phrase, with the blank before it. */
  readonly reason: string
  readonly connection: Connection
  readonly framing: Framing
  /** Whether the target's connection can be used again once the body is over. */
  readonly persistent: boolean
}

const statusLine = /^HTTP\/1\.([01]) ([1-5]\d\d)( .*)?$/

const bodyless = (status: number, method: string): boolean =>
  method === 'HEAD' || status < 200 || status === 204 || status === 304

/** @throws BadMessage */
export const parseResponse = (head: Head, method: string): Response => {
  const line = statusLine.exec(head.startLine)
  if (line === null) throw new BadMessage('the first line is no status line')
  const version = line[1] === '1' ? 1 : 0
  const status = Number(line[2])
  const connection = connectionOf(head.fields)
  const said = framingOf(head.fields, version)
  const framing: Framing = bodyless(status, method) ? { kind: 'none' } : (said ?? { kind: 'close' })
  const { close, keepAlive } = connection
  return {
    status,
    reason: line[3] ?? ' ',
    connection,
    framing,
    persistent: framing.kind !== 'close' && !close && (version === 1 || keepAlive),
  }
}

/**
 * The head as the client gets it.
 * @param said what the connection to the client is told: `close`, `keep-alive`, or nothing
 * @param told lines of the gateway, each with its line end
 */
export const responseHead = (
  { status, reason, connection }: Response,
  said: 'close' | 'keep-alive' | null,
  told: string,
): string => {
  let head = `HTTP/1.1 ${status}${reason}\r\n`
  for (const { line } of connection.passed) head += `${line}\r\n`
  if (connection.upgrade !== null) head += `Connection: Upgrade\r\nUpgrade: ${connection.upgrade}\r\n`
  else if (said !== null) head += `Connection: ${said}\r\n`
  return `${head}${told}\r\n`
}
