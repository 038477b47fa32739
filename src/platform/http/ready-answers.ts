import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import { corsHeaders, securityHeaders } from './answer.ts'
import { addressSubject, clientAddress, type TrustedProxies } from './client-address.ts'
import { newRequestId, requestIdFrom } from './headers.ts'
import type { HttpMetrics } from './http-metrics.ts'
import type { Connections } from './node-server.ts'
import type { Limits } from './rate-limit.ts'
import type { PrebuiltAnswer, Route } from './route.ts'

export type PrebuiltAnswerParts = {
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
export const servePrebuiltAnswers = (parts: PrebuiltAnswerParts, next: RequestListener): RequestListener => {
  const { limits, trusted, connections, metrics, logger } = parts
  const nextId = createIdGenerator()
  const headers = new WeakMap<PrebuiltAnswer, readonly string[]>()

  /** All headers but the request id are the same for every request. */
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
    if (route.limit !== undefined && route.limit.take(subject) !== 0) return false
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
