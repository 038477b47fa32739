import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { Logger } from 'pino'
import { newId } from '../../kernel/ids.ts'
import { addressSubject } from '../../kernel/ip-address.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { CommandOverload } from '../commands/command.ts'
import { isLogOutage, isOutage } from '../eventstore/errors.ts'
import { isOfOtherVersion, isWithoutRight, unreadableTable } from '../postgres/errors.ts'
import {
  type Connections,
  clientAddress,
  type HangUp,
  type PendingResponses,
  type TrustedProxies,
} from './connections.ts'
import { ApiError, refuse, refuseWithRetryAfter, unsupportedMediaType } from './errors.ts'
import type { HttpReply } from './exchange.ts'
import type { HttpMetrics } from './gauges.ts'
import type { Limits } from './rate-limit.ts'
import type { Checked } from './request-shape.ts'
import { type Answer, type IdempotentResult, JsonBytes, type PrebuiltAnswer, type Route } from './route.ts'

/** A new request id, e.g. `req_0199…`. */
export const newRequestId = (): string => newId('req')

/** The client's `X-Request-Id` if it has the safe form, else a new one (docs/reference/api.md, "Requests"). */
export const requestIdFrom = (header: string | undefined): string =>
  header !== undefined && accepted.test(header) && !keyLike.test(header) ? header : newRequestId()

const callIdHeaders = ['X-Request-Id', 'Idempotency-Key'] as const

/**
 * The idempotency key of a scraper call, which is also its request id. The client sends it as `X-Request-Id`, as
 * `Idempotency-Key`, or as both. It is used unchanged or refused, never silently replaced. Null: none was sent.
 * Refused as `bad_input` if it is not 1 to 128 printable ASCII characters, if it looks like an API key, or if two
 * different values were sent.
 */
export const sentCallId = ({
  headersDistinct,
}: Pick<IncomingMessage, 'headersDistinct'>): Checked<string | null> => {
  const refused = (message: string, details: string) =>
    ({ ok: false, refusal: refuse('bad_input', message, { details }) }) as const
  const sent = callIdHeaders.flatMap((name) =>
    (headersDistinct[name.toLowerCase()] ?? []).map((value) => ({ name, value })),
  )
  const bad = sent.find(({ value }) => !printable.test(value) || keyLike.test(value))
  if (bad !== undefined) return refused(`${bad.name} must be 1 to 128 printable ASCII characters`, bad.name)
  if (new Set(sent.map(({ value }) => value)).size > 1)
    return refused(
      'X-Request-Id and Idempotency-Key have different values; send one of them',
      callIdHeaders.join(', '),
    )
  return { ok: true, value: sent[0]?.value ?? null }
}

const accepted = /^[A-Za-z0-9._:-]{1,128}$/

/**
 * Request ids are logged and stored in events. A value that looks like an API key was sent by mistake and must not be
 * used.
 */
const keyLike = /fbx_/i
const printable = /^[\x20-\x7e]{1,128}$/

/**
 * Headers of every answer. The policy forbids everything: an API answer is never a page (the docs page sets its own).
 */
const securityHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const

/**
 * A page of any origin may read these answers and their headers. They do not depend on the client, so no credentials
 * are needed.
 */
export const corsHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': '*',
} as const

const json = 'application/json; charset=utf-8'

/** The headers of every answer, with any status. */
export const baseHeaders = (requestId: string): Readonly<Record<string, string>> => ({
  'x-request-id': requestId,
  ...securityHeaders,
})

const ownHeaders = (reply: HttpReply, route: Route | null, answer: Answer): void => {
  if (route?.cors) reply.headers(corsHeaders)
  if (typeof answer.position === 'number') reply.header('x-farebox-position', positionToken(answer.position))
  if (answer.headers !== undefined) reply.headers(answer.headers as Record<string, string | string[]>)
}

const jsonOf = (body: unknown): Buffer | string => (body instanceof JsonBytes ? body.bytes : jsonText(body))

/** Sends an answer: JSON, or its text under the media type that the route declares. */
export const sendAnswer = (reply: HttpReply, requestId: string, route: Route, answer: Answer): void => {
  reply.code(answer.status).headers(baseHeaders(requestId))
  ownHeaders(reply, route, answer)
  if ('text' in answer) {
    const mediaType =
      ('mediaType' in answer ? answer.mediaType : undefined) ??
      route.responses[answer.status]?.text?.mediaType ??
      'text/plain'
    reply.header('content-type', `${mediaType}; charset=utf-8`).send(answer.text)
  } else if (answer.body === undefined) reply.send()
  else reply.header('content-type', json).send(jsonOf(answer.body))
}

/** Sends a refusal in the one form of errors (docs/reference/api.md, "Errors"). */
export const sendRefusal = (
  reply: HttpReply,
  requestId: string,
  route: Route | null,
  error: ApiError,
): void => {
  reply.code(error.status).headers(baseHeaders(requestId))
  if (route?.cors) reply.headers(corsHeaders)
  if (error.headers !== undefined) reply.headers(error.headers)
  reply.header('content-type', json).send(errorBody(error, requestId))
}

export const errorBody = (error: ApiError, requestId: string): string =>
  jsonText({ error: error.message, code: error.code, requestId, ...error.extra })

/** A refusal as a page for people, with its additional headers. */
export type RefusalPage = {
  readonly html: string
  readonly headers: Readonly<Record<string, string | readonly string[]>>
}

/** Sends a refusal as a page. */
export const sendRefusalPage = (
  reply: HttpReply,
  requestId: string,
  error: ApiError,
  { html, headers }: RefusalPage,
): void => {
  reply.code(error.status).headers(baseHeaders(requestId))
  if (error.headers !== undefined) reply.headers(error.headers)
  reply.headers(headers as Record<string, string | string[]>)
  reply.header('content-type', 'text/html; charset=utf-8').send(html)
}

/**
 * Maps an error to a refusal: an `ApiError` to itself, an outage to 503, and a bug to 500 `internal_error`. A retry may
 * outlast an outage. A bug is logged with its stack and the request id. The client receives only the request id.
 */
export const refusalOf = (
  error: unknown,
  logger: Logger,
  requestId: string,
  modelOf: ModelOfTable,
): ApiError => {
  if (error instanceof ApiError) return error
  if (isWaiting(error)) return refuseWithRetryAfter('overloaded', error.message, error.retryAfterS)
  const code = (error as { code?: unknown } | null)?.code
  const known =
    typeof code === 'string' && Object.hasOwn(readerRefusals, code) ? readerRefusals[code] : undefined
  if (known !== undefined) return known()
  if (isAbort(error)) return refuse('invalid_body', 'the connection ended before the body did')
  if (isOutage(error)) return outage(error, logger, modelOf)
  logger.error({ requestId, err: error }, 'a handler failed')
  return refuse('internal_error', 'the service failed to answer; send the request id to the operator')
}

/** Thrown by a bounded wait of the read side. Like `CommandOverload`, it carries the seconds until a retry. */
type Waiting = { readonly name: string; readonly message: string; readonly retryAfterS: number }

const isWaiting = (error: unknown): error is Waiting =>
  error instanceof CommandOverload ||
  (error instanceof Error && 'retryAfterS' in error && typeof error.retryAfterS === 'number')

/** Node's own error for a request whose client disconnected in the middle of the body. */
const isAbort = (error: unknown): boolean =>
  error instanceof Error && error.message === 'aborted' && (error as { code?: unknown }).code === 'ECONNRESET'

/** Logs without the request id: an outage is one failure, and the log counts the requests that met it. */
/** The read model that fills a table; undefined: none does. */
export type ModelOfTable = (table: string) => string | undefined

/** How long a client waits for a stopped read model, seconds. Its repair takes minutes. */
const stoppedRetryS = 30

const outage = (error: unknown, logger: Logger, modelOf: ModelOfTable): ApiError => {
  const table = unreadableTable(error)
  const model = table === null ? undefined : modelOf(table)
  if (model !== undefined) {
    logger.warn({ err: error, model }, 'a request needs a read model that is stopped')
    return refuseWithRetryAfter(
      'overloaded',
      `the read model ${model} is stopped, and this request needs it; try again later`,
      stoppedRetryS,
    )
  }
  const dependency = isLogOutage(error) ? 'log' : 'database'
  if (isOfOtherVersion(error))
    logger.error({ err: error }, 'a table differs from this version: a newer version may have rebuilt it')
  else if (isWithoutRight(error))
    logger.error(
      { err: error },
      'the role of the service lacks a right: a start grants it, and `doctor` names it',
    )
  else logger.warn({ err: error }, `the ${dependency} does not answer`)
  return refuseWithRetryAfter('overloaded', `the service cannot reach its ${dependency}; try again`, 1)
}

/** Errors of Fastify's body reader that a client causes. */
const readerRefusals: Readonly<Record<string, () => ApiError>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => unsupportedMediaType(),
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

/** The members of a list in a header, without what follows a semicolon. */
const members = (header: string | undefined): readonly (readonly [name: string, parameters: string])[] =>
  (header ?? '').split(',').map((member) => {
    const [name = '', ...parameters] = member.split(';')
    return [name.trim(), parameters.join(';').replaceAll(' ', '')]
  })

/** RFC 9110, 12.5.3: a weight of 0 means "not acceptable". */
const takesGzip = (header: string | string[] | undefined): boolean =>
  members(String(header ?? '')).some(
    ([name, parameters]) => name.toLowerCase() === 'gzip' && !/^q=0(\.0*)?$/i.test(parameters),
  )

/** A weak tag, because it is the same for every encoding of the text. */
export const etagOf = (text: string): string =>
  `W/"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`

/** Whether the client already has the content of this tag (RFC 9110, 13.1.2). */
export const matchesEtag = (headers: IncomingHttpHeaders, etag: string): boolean =>
  members(headers['if-none-match']).some(([name]) => {
    const tag = name.replace(/^(?!W\/)/, 'W/')
    return tag === etag || tag === 'W/*'
  })

/**
 * A text that is the same for every client until the process ends. Caches must revalidate it each time, and receive 304
 * if their copy is current (RFC 9110, 13.1.2). It is compressed once, for clients that accept gzip.
 */
export const fixedText = (text: string) => {
  const etag = etagOf(text)
  const common = { etag, 'cache-control': 'no-cache', vary: 'accept-encoding' }
  let packed: Buffer | null = null

  return (headers: IncomingHttpHeaders) => {
    if (matchesEtag(headers, etag)) return { status: 304, headers: common } as const
    if (!takesGzip(headers['accept-encoding'])) return { status: 200, text, headers: common } as const
    packed ??= gzipSync(text, { level: 9 })
    return { status: 200, text: packed, headers: { ...common, 'content-encoding': 'gzip' } } as const
  }
}

/** The body of a refusal: `{error, code, requestId}` and the fields of the code (docs/reference/api.md, "Errors"). */
type PrebuiltAnswerDependencies = {
  readonly routes: readonly Route[]
  readonly limits: Limits
  readonly trusted: TrustedProxies
  readonly connections: Connections
  readonly metrics: HttpMetrics
  readonly logger: Logger
}

type ReadyRoute = Route & { ready(rawQuery: string): PrebuiltAnswer | null }

/**
 * Whether the answer depends on nothing but the query: the request has no repeated header, no condition and no body.
 */
const isPlain = ({ headers, httpVersion, rawHeaders }: IncomingMessage): boolean =>
  httpVersion === '1.1' &&
  headers.host !== undefined &&
  headers['if-none-match'] === undefined &&
  headers['content-length'] === undefined &&
  headers['transfer-encoding'] === undefined &&
  headers.expect === undefined &&
  Object.keys(headers).length * 2 === rawHeaders.length

const idsOfOne = 4_096

/** Request ids in the form of `newRequestId`. The last three digits count, so one in 4,096 ids is drawn at random. */
const createIdGenerator = (): (() => string) => {
  let idPrefix = ''
  let next = idsOfOne
  return () => {
    if (next === idsOfOne) {
      idPrefix = newRequestId().slice(0, -3)
      next = 0
    }
    next += 1
    return idPrefix + (next - 1).toString(16).padStart(3, '0')
  }
}

const securityPairs = Object.entries(securityHeaders)
  .filter(([name]) => name !== 'cache-control')
  .flat()

const headersOf = ({ mediaType, text, etag }: PrebuiltAnswer, cors: boolean): readonly string[] => [
  'x-request-id',
  '',
  ...securityPairs,
  'cache-control',
  'no-cache',
  'etag',
  etag,
  'content-type',
  `${mediaType}; charset=utf-8`,
  'content-length',
  String(text.length),
  ...(cors ? Object.entries(corsHeaders).flat() : []),
]

/**
 * Sends ready answers before the router, its hooks and the checks of a body. Together these cost more than Node needs
 * for the request. Only a request that would pass every check is answered here. Any other request goes to `next`: over
 * a limit, with a repeated header or a body, conditional, or with a query whose answer is not ready. So this listener
 * refuses nothing, and its answers equal those of `next`.
 *
 * @returns the listener of requests that replaces `next`
 */
export const servePrebuiltAnswers = (
  parts: PrebuiltAnswerDependencies,
  next: RequestListener,
): RequestListener => {
  const { limits, trusted, connections, metrics, logger } = parts
  const nextId = createIdGenerator()
  const headers = new WeakMap<PrebuiltAnswer, readonly string[]>()

  /** The prebuilt headers. Only the request id differs between requests. */
  const headersFor = (ready: PrebuiltAnswer, cors: boolean, requestId: string): string[] => {
    let known = headers.get(ready)
    if (known === undefined) {
      known = headersOf(ready, cors)
      headers.set(ready, known)
    }
    const ownHeaders = known.slice()
    ownHeaders[1] = requestId
    return ownHeaders
  }
  const routes = new Map(
    parts.routes
      .filter((route): route is ReadyRoute => route.ready !== undefined && route.access === 'public')
      .map((route) => [route.path, route]),
  )
  if (routes.size === 0) return next

  /** Counts the request. A limit does not count a request that it refuses, and `next` checks the limit again. */
  const isAdmitted = (route: Route, subject: string): boolean => {
    if (limits === null) return true
    const taken = route.limit?.take(subject)
    if (taken !== undefined && ('then' in taken || taken.waitS > 0)) return false
    return limits.perAddress.take(subject) === 0
  }

  const answer = (
    request: IncomingMessage,
    response: ServerResponse,
    route: Route,
    ready: PrebuiltAnswer,
  ): void => {
    const header = request.headers['x-request-id']
    const requestId = typeof header === 'string' ? requestIdFrom(header) : nextId()
    const connection = connections.of(request.socket)
    connection.markBusy()
    response.writeHead(200, headersFor(ready, route.cors === true, requestId))
    response.end(ready.text, 'latin1')
    connection.markIdle()
    metrics.ready()
    if (logger.isLevelEnabled('info'))
      logger.info({ requestId, method: 'GET', route: route.path, status: 200, ready: true }, 'request')
  }

  return (request, response) => {
    const { url = '', method } = request
    const queryStart = url.indexOf('?')
    const route = method === 'GET' ? routes.get(queryStart < 0 ? url : url.slice(0, queryStart)) : undefined
    const ready = route === undefined ? null : route.ready(queryStart < 0 ? '' : url.slice(queryStart + 1))
    if (route === undefined || ready === null || !isPlain(request)) return next(request, response)
    if (!isAdmitted(route, addressSubject(clientAddress(request, trusted)))) return next(request, response)
    answer(request, response, route, ready)
  }
}

/** A JSON body as it is sent. It ends with a newline, so that a terminal starts a new line after it. */
export const jsonText = (body: unknown): string => `${JSON.stringify(body)}\n`

/** 201 for a new resource, 200 with `Idempotency-Replayed` for a resource that its key already had. */
export const idempotentAnswer = <Body>(made: IdempotentResult, body: Body) =>
  ({
    status: made.replayed ? 200 : 201,
    body,
    headers: keyHeader(made),
    position: made.position,
  }) as const

/** The response header that shows whether the answer is a replay. */
export const keyHeader = ({ replayed, idempotencyKey }: Omit<IdempotentResult, 'position'>) =>
  replayed ? { 'idempotency-replayed': 'true' } : { 'idempotency-key': idempotencyKey }
