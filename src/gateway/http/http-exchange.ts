import type { BufferedSocket, ConnectionHandler } from '../buffered-socket.ts'
import { clientGone, type OwnAnswer, targetClosed } from '../refusals.ts'
import type { Pump } from '../relay/tunnel.ts'
import { type BodyReader, type Framing, readerOf, responseFraming } from './body.ts'
import {
  BadMessage,
  type Connection,
  connectionOf,
  createHeadCollector,
  type Head,
  lenientHeads,
  listOf,
} from './message-head.ts'
import type { ForwardRequest } from './parse-request.ts'

export type Response = {
  readonly status: number
  /** The status as it was sent. */
  readonly code: string
  readonly reason: string
  readonly connection: Connection
  readonly framing: Framing
  /** Whether the target's connection can be reused after the body. */
  readonly persistent: boolean
}

/** Any three digits (RFC 9110 section 15). Unknown minor versions are read as the highest known one (section 2.5). */
const statusLine = /^HTTP\/1\.(\d)[ \t]+(\d{3})(?:[ \t](.*))?$/i

const isInterim = (status: number): boolean => status >= 100 && status < 200
const isBodyless = (status: number, method: string): boolean =>
  method === 'HEAD' || isInterim(status) || status === 204 || status === 304

/** @throws BadMessage */
const parseResponse = (head: Head, method: string): Response => {
  const line = statusLine.exec(head.startLine)
  if (line === null) throw new BadMessage('the first line is no status line')
  const version = line[1] === '0' ? 0 : 1
  const status = Number(line[2])
  const { framing, fields, faulty } = responseFraming(head.fields, version, isBodyless(status, method))
  const connection = connectionOf(fields, 'response')
  const { close, keepAlive } = connection
  return {
    status,
    code: line[2]!,
    reason: line[3] ?? '',
    connection,
    framing,
    persistent: framing.kind !== 'close' && !faulty && !close && (version === 1 || keepAlive),
  }
}

/**
 * The head of the answer to the client.
 * @param connectionOption the `Connection` field: `close`, `keep-alive`, or null for none
 * @param routeHeaders lines of the gateway, each with its line end
 */
const responseHead = (
  { code, reason, connection }: Response,
  connectionOption: 'close' | 'keep-alive' | null,
  routeHeaders: string,
): string => {
  let head = `HTTP/1.1 ${code} ${reason}\r\n`
  for (const { line } of connection.passed) head += `${line}\r\n`
  head += routeHeaders
  if (connection.upgrade !== null) head += `Connection: Upgrade\r\nUpgrade: ${connection.upgrade}\r\n`
  else if (connectionOption !== null) head += `Connection: ${connectionOption}\r\n`
  return `${head}\r\n`
}

/** The result of a request and its answer. */
export type ExchangeEnd =
  /** Both are complete. */
  | { readonly kind: 'done'; readonly upstreamReusable: boolean; readonly clientPersists: boolean }
  /** The protocol changed. The target's 101 is in the read buffer of its socket. */
  | { readonly kind: 'upgraded' }
  /** The client received nothing. `isTargetSilent`: the target sent nothing either. */
  | { readonly kind: 'unanswered'; readonly answer: OwnAnswer; readonly isTargetSilent: boolean }
  /** The client received a part of the answer. `hasUnclearEnd`: it could mistake the part for the whole. */
  | { readonly kind: 'broken'; readonly why: OwnAnswer; readonly hasUnclearEnd: boolean }

type ExchangeOptions = {
  readonly request: ForwardRequest
  readonly client: BufferedSocket
  readonly upstream: BufferedSocket
  readonly up: Pump
  readonly down: Pump
  readonly responseHeadBytes: number
  /** Header lines of the gateway for the answer. */
  readonly routeHeaders: string
  /** Whether the client's connection may be reused. */
  persists(): boolean
  touch(): void
  /** The client has ended its side. It may have given up. */
  clientEnded(): void
  /** Bytes were sent to a client that had ended its side. A client that gave up answers them with a reset. */
  sentAfterEnd(): void
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

/** A body part up to this size is sent in one write with the head, bytes. */
const maxJoinedBytes = 16_384

/** Handles one request, whose head is already sent, and its answer. */
export const runExchange = (options: ExchangeOptions): Exchange => {
  const { request, client, upstream, up, down, responseHeadBytes, routeHeaders, persists, touch, ended } =
    options
  const { clientEnded, sentAfterEnd } = options
  const body = readerOf(request.framing, 'request')
  const heads = createHeadCollector(responseHeadBytes, lenientHeads)
  let answer: { readonly response: Response; readonly reader: BodyReader } | null = null
  /** The answer ends with the client's connection, so the client cannot detect a missing part. */
  let endsByClose = false
  let clientPersists = false
  let hasExtraBytes = false
  let isTargetSilent = true
  /** The client has ended its side, and nothing was sent to it since. */
  let mayClientBeGone = false
  /** The target ended its connection after the whole answer. */
  let hasTargetEnded = false
  let isFinished = false

  const finish = (ending: ExchangeEnd): void => {
    if (isFinished) return
    isFinished = true
    ended(ending)
  }
  const fail = (why: OwnAnswer): void =>
    finish(
      answer === null
        ? { kind: 'unanswered', answer: why, isTargetSilent }
        : { kind: 'broken', why, hasUnclearEnd: endsByClose },
    )
  /** Runs a parser. A BadMessage ends the exchange. */
  const failOnBadMessage = (read: () => boolean, toAnswer: (why: string) => OwnAnswer): boolean => {
    try {
      return read()
    } catch (error) {
      if (!(error instanceof BadMessage)) throw error
      fail(toAnswer(error.message))
      return false
    }
  }
  /** Ends the exchange when both messages are complete and all bytes of the answer are paid for. */
  const settle = (): void => {
    if (answer === null) return
    if (!hasTargetEnded && !(answer.reader.done && body.done)) return
    if (down.hasPending()) {
      down.afterPending(settle)
      return
    }
    const isReusable = !hasTargetEnded && !up.hasPending()
    const upstreamReusable = isReusable && answer.response.persistent && !hasExtraBytes
    finish({ kind: 'done', upstreamReusable, clientPersists: isReusable && clientPersists })
  }

  const passBody = (chunk: Buffer, reader: BodyReader): boolean => {
    let canContinue = true
    const consumed = reader.take(chunk, (piece) => {
      canContinue = down.write(piece) && canContinue
    })
    // Bytes after the answer belong to no request.
    if (consumed < chunk.length) hasExtraBytes = true
    settle()
    return canContinue
  }
  const passHead = (text: string, rest: Buffer, reader: BodyReader): boolean => {
    const pieces: Buffer[] = [Buffer.from(text, 'latin1')]
    const consumed = rest.length === 0 ? 0 : reader.take(rest, (piece) => void pieces.push(piece))
    if (consumed < rest.length) hasExtraBytes = true
    const out = pieces.length > 1 && consumed <= maxJoinedBytes ? [Buffer.concat(pieces)] : pieces
    let canContinue = true
    for (const piece of out) canContinue = down.write(piece) && canContinue
    settle()
    return canContinue
  }
  /** The head for a client of HTTP/1.0, which cannot read chunks. @throws BadMessage */
  const decodedHead = (response: Response): Response => {
    const { connection } = response
    const passed = connection.passed.filter(({ name }) => name !== 'transfer-encoding' && name !== 'trailer')
    const codings = listOf(connection.passed, 'transfer-encoding')
    if (codings.some((coding) => coding !== 'chunked'))
      throw new BadMessage('a Transfer-Encoding that no client of HTTP/1.0 reads')
    return { ...response, connection: { ...connection, passed } }
  }
  const passFinal = (upstreamResponse: Response, rest: Buffer): boolean => {
    const { framing } = upstreamResponse
    const isHttp10 = request.version === 0
    const response = isHttp10 ? decodedHead(upstreamResponse) : upstreamResponse
    endsByClose = framing.kind === 'close' || (isHttp10 && framing.kind === 'chunked')
    clientPersists = request.persistent && !endsByClose && persists()
    const connectionOption = clientPersists ? (isHttp10 ? 'keep-alive' : null) : 'close'
    const reader = readerOf(framing, isHttp10 ? 'decoded' : 'response')
    answer = { response, reader }
    return passHead(responseHead(response, connectionOption, routeHeaders), rest, reader)
  }
  /** Not sent to a client of HTTP/1.0 (RFC 9110 section 15.2). */
  const passInterim = (response: Response): boolean =>
    request.version === 0 || down.write(Buffer.from(responseHead(response, null, ''), 'latin1'))
  const changeProtocol = (response: Response, rest: Buffer): boolean => {
    const { upgrade } = request
    if (upgrade === null) throw new BadMessage('it changes the protocol without a request to do so')
    const connection = { ...response.connection, upgrade: response.connection.upgrade ?? upgrade }
    const text = responseHead({ ...response, connection }, null, routeHeaders)
    upstream.unshift(Buffer.concat([Buffer.from(text, 'latin1'), rest]))
    upstream.detach()
    // The bytes of the tunnel follow those of the request and of its interim answers.
    up.afterPending(() => down.afterPending(() => finish({ kind: 'upgraded' })))
    return false
  }
  const handleResponseBytes = (chunk: Buffer): boolean => {
    let canContinue = true
    let rest = chunk
    while (answer === null) {
      const found = heads.add(rest)
      if (found === null) return canContinue
      const response = parseResponse(found.head, request.method)
      if (response.status === 101) return changeProtocol(response, found.rest)
      if (!isInterim(response.status)) return passFinal(response, found.rest) && canContinue
      canContinue = passInterim(response) && canContinue
      rest = found.rest
    }
    return passBody(chunk, answer.reader)
  }

  const clientHandler: ConnectionHandler = {
    bytes: (chunk) =>
      failOnBadMessage(() => {
        touch()
        if (body.done) {
          // The next request. It is read after this exchange.
          client.unshift(chunk)
          return false
        }
        let canContinue = true
        const consumed = body.take(chunk, (piece) => {
          canContinue = up.write(piece)
        })
        const rest = chunk.subarray(consumed)
        client.unshift(rest)
        settle()
        return canContinue && rest.length === 0
      }, badBody),
    end: () => {
      if (!body.done) return fail(clientGone)
      mayClientBeGone = true
      clientEnded()
    },
    drain: () => down.drained(),
    closed: () => fail(clientGone),
    isChunkInUse: () => false,
  }
  const handleTargetEnd = (fault: Error | null): void => {
    if (isFinished) return
    if (answer === null) {
      fail(targetClosed)
      return
    }
    const isComplete = answer.response.framing.kind === 'close' ? fault === null : answer.reader.done
    if (!isComplete && !hasTargetEnded) {
      fail(targetClosed)
      return
    }
    hasTargetEnded = true
    settle()
  }
  const targetHandler: ConnectionHandler = {
    bytes: (chunk) =>
      failOnBadMessage(() => {
        touch()
        isTargetSilent = false
        const writtenBytes = client.socket.bytesWritten
        const canContinue = handleResponseBytes(chunk)
        if (mayClientBeGone && client.socket.bytesWritten > writtenBytes) {
          mayClientBeGone = false
          if (!isFinished) sentAfterEnd()
        }
        return canContinue
      }, badAnswer),
    end: () => handleTargetEnd(null),
    drain: () => up.drained(),
    closed: handleTargetEnd,
    isChunkInUse: () => down.holds(),
  }
  upstream.use(targetHandler)
  if (!isFinished) client.use(clientHandler)
  return { fail }
}
