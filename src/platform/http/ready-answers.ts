import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { securityHeaders } from './answer.ts'
import { addressSubject, clientAddress, type TrustedProxies } from './client-address.ts'
import type { Connections } from './connections.ts'
import type { Limits } from './gate.ts'
import type { HttpMetrics } from './http-metrics.ts'
import { requestIdFrom } from './request-id.ts'
import type { ReadyAnswer, Route } from './route.ts'

export type ReadyParts = {
  readonly routes: readonly Route[]
  readonly limits: Limits
  readonly trusted: TrustedProxies
  readonly connections: Connections
  readonly metrics: HttpMetrics
  readonly logger: Logger
  readonly monotonicMs: MonotonicClock
}

type ReadyRoute = Route & { ready(rawQuery: string): ReadyAnswer | null }

/**
 * What a request must be for its answer not to need a look at anything but its query: no header twice, no condition, no
 * body.
 */
const isPlain = ({ headers, httpVersion, rawHeaders }: IncomingMessage): boolean =>
  httpVersion === '1.1' &&
  headers.host !== undefined &&
  headers['if-none-match'] === undefined &&
  headers['content-length'] === undefined &&
  headers['transfer-encoding'] === undefined &&
  headers.expect === undefined &&
  Object.keys(headers).length * 2 === rawHeaders.length

const securityPairs = Object.entries(securityHeaders)
  .filter(([name]) => name !== 'cache-control')
  .flat()

const headersOf = (requestId: string, { mediaType, text, etag }: ReadyAnswer, cors: boolean): string[] => {
  const headers = [
    'x-request-id',
    requestId,
    ...securityPairs,
    'cache-control',
    'no-cache',
    'etag',
    etag,
    'content-type',
    `${mediaType}; charset=utf-8`,
    'content-length',
    String(text.length),
  ]
  if (cors) headers.push('access-control-allow-origin', '*')
  return headers
}

/**
 * Answers that are ready go out before the router, its hooks and the checks of a body, which together cost more than Node
 * takes for the request. Only a request that would pass every check is answered here: whatever is out of the ordinary (a
 * limit reached, a header twice, a body, a conditional request, a query whose answer is not ready) goes the way of every
 * other, and is told there what is wrong. So nothing is refused here, and nothing is answered otherwise than there.
 *
 * @returns the listener of requests that is to be used in place of `next`
 */
export const withReadyAnswers = (parts: ReadyParts, next: RequestListener): RequestListener => {
  const { limits, trusted, connections, metrics, logger, monotonicMs } = parts
  const routes = new Map(
    parts.routes
      .filter((route): route is ReadyRoute => route.ready !== undefined && route.access === 'public')
      .map((route) => [route.path, route]),
  )
  if (routes.size === 0) return next

  /** Counts the request. What a limit refuses it has not counted, and the ordinary way asks it again. */
  const isAdmitted = (route: Route, subject: string): boolean => {
    if (limits === null) return true
    if (route.limit !== undefined && route.limit.take(subject) !== 0) return false
    return limits.perAddress.take(subject) === 0
  }

  const answer = (
    request: IncomingMessage,
    response: ServerResponse,
    route: Route,
    ready: ReadyAnswer,
  ): void => {
    const startedMs = monotonicMs()
    const header = request.headers['x-request-id']
    const requestId = requestIdFrom(typeof header === 'string' ? header : undefined)
    const connection = connections.of(request.socket)
    connection.work()
    response.writeHead(200, headersOf(requestId, ready, route.cors === true))
    response.end(ready.text, 'latin1')
    connection.rest()
    const ms = monotonicMs() - startedMs
    metrics.finished('GET', route.path, 200, ms / 1000)
    metrics.held('GET', route.path, ms / 1000)
    if (logger.isLevelEnabled('info'))
      logger.info(
        { requestId, method: 'GET', route: route.path, status: 200, ms: Math.round(ms * 100) / 100 },
        'request',
      )
  }

  return (request, response) => {
    const { url = '', method } = request
    const mark = url.indexOf('?')
    const route = method === 'GET' ? routes.get(mark < 0 ? url : url.slice(0, mark)) : undefined
    const ready = route === undefined ? null : route.ready(mark < 0 ? '' : url.slice(mark + 1))
    if (route === undefined || ready === null || !isPlain(request)) return next(request, response)
    if (!isAdmitted(route, addressSubject(clientAddress(request, trusted)))) return next(request, response)
    answer(request, response, route, ready)
  }
}
