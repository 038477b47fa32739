import type { BufferedSocket, ConnectionHandler } from '../accept/buffered-socket.ts'
import { targetClosed } from '../dial/dial-result.ts'
import type { Pump } from '../relay/pump.ts'
import { type BodyReader, type Framing, framingOf, readerOf } from './body.ts'
import { BadMessage, type Connection, connectionOf, createHeadCollector, type Head } from './message-head.ts'
import type { OwnAnswer } from './own-answer.ts'
import type { ForwardRequest } from './parse-request.ts'

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
  routeHeaders: string,
): string => {
  let head = `HTTP/1.1 ${status}${reason}\r\n`
  for (const { line } of connection.passed) head += `${line}\r\n`
  if (connection.upgrade !== null) head += `Connection: Upgrade\r\nUpgrade: ${connection.upgrade}\r\n`
  else if (said !== null) head += `Connection: ${said}\r\n`
  return `${head}${routeHeaders}\r\n`
}

/** How a request and its answer ended. */
export type ExchangeEnd =
  /** Both are over. */
  | { readonly kind: 'done'; readonly upstreamReusable: boolean; readonly clientPersists: boolean }
  /** The connection speaks something else now; the target's 101 waits on its wire. */
  | { readonly kind: 'upgraded' }
  /** The client has got nothing. `heard`: nor has the target said anything. */
  | { readonly kind: 'unanswered'; readonly answer: OwnAnswer; readonly unheard: boolean }
  /** The client has got a part of the answer; `unclear`: it could take it for the whole. */
  | { readonly kind: 'broken'; readonly why: OwnAnswer; readonly unclear: boolean }

export type ExchangeParts = {
  readonly request: ForwardRequest
  readonly client: BufferedSocket
  readonly upstream: BufferedSocket
  readonly up: Pump
  readonly down: Pump
  readonly responseHeadBytes: number
  /** Header lines of the gateway for the answer. */
  readonly routeHeaders: string
  /** Whether the client's connection may go on after this. */
  persists(): boolean
  touch(): void
  ended(ending: ExchangeEnd): void
}

export type Exchange = { fail(answer: OwnAnswer): void }

const badAnswer = (why: string): OwnAnswer => ({
  status: 502,
  error: 'bad_response',
  detail: `The target's answer is not HTTP: ${why}.`,
})
const badBody = (why: string): OwnAnswer => ({
  status: 400,
  error: 'bad_request',
  detail: `Bad request: ${why}.`,
})
const clientGone: OwnAnswer = { status: 400, error: 'client_reset', detail: 'The request was broken off.' }

const maxInterim = 20
/** A body's part up to this goes out with its head in one write. */
const joinedBytes = 16_384

/** One request, whose head has gone out, and its answer. */
export const runExchange = (parts: ExchangeParts): Exchange => {
  const { request, client, upstream, up, down, responseHeadBytes, routeHeaders, persists, touch, ended } =
    parts
  const body = readerOf(request.framing)
  const heads = createHeadCollector(responseHeadBytes)
  let answer: { readonly response: Response; readonly reader: BodyReader } | null = null
  let clientPersists = false
  let extra = false
  let interim = 0
  let unheard = true
  let over = false

  const finish = (ending: ExchangeEnd): void => {
    if (over) return
    over = true
    ended(ending)
  }
  const fail = (why: OwnAnswer): void =>
    finish(
      answer === null
        ? { kind: 'unanswered', answer: why, unheard }
        : { kind: 'broken', why, unclear: answer.response.framing.kind === 'close' },
    )
  /** Runs what reads a message; a bad one ends the exchange. */
  const reading = (read: () => boolean, bad: (why: string) => OwnAnswer): boolean => {
    try {
      return read()
    } catch (error) {
      if (!(error instanceof BadMessage)) throw error
      fail(bad(error.message))
      return false
    }
  }
  const settle = (): void => {
    if (answer === null || !answer.reader.done || !body.done) return
    const upstreamReusable = answer.response.persistent && !extra && !up.pending()
    finish({ kind: 'done', upstreamReusable, clientPersists: clientPersists && !up.pending() })
  }

  const passBody = (chunk: Buffer, reader: BodyReader): boolean => {
    const taken = reader.take(chunk)
    // Whatever a target says behind its answer, nobody asked for it.
    if (taken < chunk.length) extra = true
    const goOn = taken === 0 || down.write(taken === chunk.length ? chunk : chunk.subarray(0, taken))
    settle()
    return goOn
  }
  const passHead = (text: string, rest: Buffer, reader: BodyReader): boolean => {
    const taken = rest.length === 0 ? 0 : reader.take(rest)
    if (taken < rest.length) extra = true
    const joined = taken <= joinedBytes
    const bytes = Buffer.allocUnsafe(text.length + (joined ? taken : 0))
    bytes.write(text, 'latin1')
    if (joined) rest.copy(bytes, text.length, 0, taken)
    const goOn = down.write(bytes)
    if (joined) {
      settle()
      return goOn
    }
    const then = down.write(rest.subarray(0, taken))
    settle()
    return goOn && then
  }
  const passFinal = (response: Response, rest: Buffer): boolean => {
    const { framing } = response
    if (framing.kind === 'chunked' && request.version === 0)
      throw new BadMessage('chunks for a client of HTTP/1.0')
    clientPersists = request.persistent && framing.kind !== 'close' && persists()
    const said = clientPersists ? (request.version === 0 ? 'keep-alive' : null) : 'close'
    const reader = readerOf(framing)
    answer = { response, reader }
    return passHead(responseHead(response, said, routeHeaders), rest, reader)
  }
  const passInterim = (response: Response, rest: Buffer): boolean => {
    interim += 1
    if (interim > maxInterim) throw new BadMessage('too many interim answers')
    const goOn = request.version === 0 || down.write(Buffer.from(responseHead(response, null, ''), 'latin1'))
    return rest.length === 0 ? goOn : heard(rest) && goOn
  }
  const answered = (head: Head, rest: Buffer): boolean => {
    const response = parseResponse(head, request.method)
    if (response.status === 101) {
      if (request.upgrade === null || response.connection.upgrade === null)
        throw new BadMessage('it changes the protocol without being asked')
      const text = responseHead(response, null, routeHeaders)
      upstream.unshift(Buffer.concat([Buffer.from(text, 'latin1'), rest]))
      finish({ kind: 'upgraded' })
      return false
    }
    return response.status < 200 ? passInterim(response, rest) : passFinal(response, rest)
  }
  const heard = (chunk: Buffer): boolean => {
    if (answer !== null) return passBody(chunk, answer.reader)
    const found = heads.add(chunk)
    return found === null || answered(found.head, found.rest)
  }

  const clientHandler: ConnectionHandler = {
    bytes: (chunk) =>
      reading(() => {
        touch()
        if (body.done) {
          // The next request; it is read when this one is over.
          client.unshift(chunk)
          return false
        }
        const taken = body.take(chunk)
        const goOn = up.write(taken === chunk.length ? chunk : chunk.subarray(0, taken))
        const rest = chunk.subarray(taken)
        client.unshift(rest)
        settle()
        return goOn && rest.length === 0
      }, badBody),
    end: () => {
      if (!body.done) fail(clientGone)
    },
    drain: () => down.drained(),
    closed: () => fail(clientGone),
    holds: () => false,
  }
  const lost = (fault: Error | null): void => {
    if (over) return
    if (answer === null) {
      fail(targetClosed())
      return
    }
    const whole = answer.response.framing.kind === 'close' ? fault === null : answer.reader.done
    if (whole) finish({ kind: 'done', upstreamReusable: false, clientPersists: false })
    else fail(targetClosed())
  }
  const targetHandler: ConnectionHandler = {
    bytes: (chunk) =>
      reading(() => {
        touch()
        unheard = false
        return heard(chunk)
      }, badAnswer),
    end: () => lost(null),
    drain: () => up.drained(),
    closed: lost,
    holds: () => down.holds(),
  }
  upstream.use(targetHandler)
  if (!over) client.use(clientHandler)
  return { fail }
}
