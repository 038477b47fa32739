import type { FastifyInstance } from 'fastify'
import Fastify from 'fastify'
import type { Logger } from 'pino'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { CustomerIdOf } from '../../kernel/external-id.ts'
import { trimEnd } from '../../kernel/formats.ts'
import {
  answerBrokenRequest,
  baseHeaders,
  corsHeaders,
  type ModelOfTable,
  newRequestId,
  type RefusalPage,
  refusalOf,
  requestIdFrom,
  sendAnswer,
  sendRefusal,
  sendRefusalPage,
  sentCallId,
  servePrebuiltAnswers,
} from './answer.ts'
import type { Directory, FinanceDirectory } from './auth.ts'
import { checkSentOnce, compileRoute } from './compile.ts'
import {
  type ConnectionLimits,
  clientAddress,
  createConnections,
  createHangUp,
  createNodeServer,
  createPendingResponses,
  defaultConnectionLimits,
  defaultTimes,
  hangUpIdleOnClose,
  noTrustedProxies,
  type Times,
  type TrustedProxies,
} from './connections.ts'
import { type ApiError, refuse, refuseUnknownPath } from './errors.ts'
import type { CompiledRoute, Exchange, HttpReply, HttpRequest } from './exchange.ts'
import type { HttpMetrics } from './gauges.ts'
import {
  admit,
  admitAddress,
  admitFinance,
  createEventLoopDelayMeter,
  createInFlight,
  createPendingBodies,
  defaultPendingBodyLimits,
  type Limits,
  type PendingBodyLimits,
} from './rate-limit.ts'
import { readBodies } from './read-body.ts'
import type { Route } from './route.ts'

type PathMatch = { readonly allow: string; readonly cors: boolean }

/** The methods of a path, for requests that match no route. 405 and OPTIONS list them. */
type PathTable = (path: string) => PathMatch | null

const pattern = (path: string): RegExp => {
  const escaped = path.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{[^{}]+\}/g, '[^/]+')
  return new RegExp(`^${escaped}$`)
}

const allowOf = (routes: readonly Route[]): string => {
  const methods = routes.map(({ method }) => method as string)
  return [...new Set([...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'])].join(', ')
}

/** A path may match several patterns: `/proxies/extend` is also `/proxies/{id}`. */
const pathTable = (routes: readonly Route[]): PathTable => {
  const byPath = Map.groupBy(routes, ({ path }) => path as string)
  const rows = [...byPath].map(([path, group]) => ({ pattern: pattern(path), group }))
  return (path) => {
    const matches = rows.filter((row) => row.pattern.test(path)).flatMap(({ group }) => group)
    return matches.length === 0
      ? null
      : { allow: allowOf(matches), cors: matches.some(({ cors }) => cors === true) }
  }
}

export type HttpServerOptions = {
  readonly routes: readonly Route[]
  readonly directory: Directory
  /** The internal id of the reseller's customer that a request names. */
  readonly customerIdOf: CustomerIdOf
  /** Left out: no route has the access `finance`. */
  readonly financeDirectory?: FinanceDirectory
  readonly logger: Logger
  readonly metrics: HttpMetrics
  /** Null switches rate limits off. */
  readonly limits: Limits
  readonly monotonicMs: MonotonicClock
  readonly trusted?: TrustedProxies
  /** Requests in progress at once. Further requests are answered 503 before any work is done for them. */
  readonly maxInFlight?: number
  /** Those of one account; more are answered 429. Without rate limits there is no such limit. */
  readonly maxInFlightPerAccount?: number
  readonly connections?: Partial<ConnectionLimits>
  /** Bodies in transit. Without rate limits, those of one account are not limited. */
  readonly arriving?: Partial<PendingBodyLimits>
  readonly times?: Partial<Times>
  /** For the message of a 503 whose cause is a stopped read model. Left out: the server has no read models. */
  readonly modelOf?: ModelOfTable
  /** Pages for people: every refusal under these paths is a page. Left out: there are none. */
  readonly pages?: {
    /** E.g. `/console`. */
    readonly under: readonly string[]
    refused(error: ApiError, requestId: string): RefusalPage
  }
}

const defaultMaxInFlight = 2_000
/** At least four accounts share the slots. An account whose requests all hang leaves most slots to others. */
const defaultMaxInFlightPerAccount = 500
/** The logged and measured status of a request whose client disconnected before the answer (a status of nginx). */
const clientClosed = 499

const requestIdOf = (request: HttpRequest, route: Route | undefined): string => {
  const header = request.headers['x-request-id']
  if (!route?.requestIdIsKey) return requestIdFrom(typeof header === 'string' ? header : undefined)
  const sent = sentCallId(request.raw)
  return (sent.ok ? sent.value : null) ?? newRequestId()
}

/** The router accepts an empty path segment as a parameter, e.g. `/api/v1/orders/`. No route has such a path. */
const isRouted = (request: HttpRequest): boolean =>
  !request.is404 && !Object.values(request.params as Record<string, string>).includes('')

const checkCallId = (request: HttpRequest, route: Route): void => {
  const sent = route.requestIdIsKey ? sentCallId(request.raw) : null
  if (sent?.ok === false) throw sent.refusal
}

/** RFC 9112: an HTTP/1.1 request without a Host, or with two, is refused. HTTP/1.0 needs none. */
const checkHost = ({ raw, headers }: HttpRequest): void => {
  checkSentOnce(raw)
  if (headers.host === undefined && raw.httpVersion !== '1.0')
    throw refuse('invalid_parameter', 'this is not a valid HTTP/1.1 request: it has no Host')
}

/**
 * Answers a request that matches no route. A path that exists without its trailing slashes is redirected, with its
 * query; 308 makes the client repeat method and body. For an existing path, OPTIONS is answered and other methods are
 * 405. All other paths are 404.
 */
const answerUnrouted = (paths: PathTable, request: HttpRequest, reply: HttpReply): HttpReply => {
  const [rawPath = '', ...query] = request.url.split('?')
  const path = trimEnd(rawPath, '/') || '/'
  const match = paths(path)
  if (match === null) throw refuseUnknownPath()
  if (match.cors) reply.headers(corsHeaders)
  if (path !== rawPath)
    return reply
      .code(308)
      .headers({ ...baseHeaders(request.exchange.requestId), location: [path, ...query].join('?') })
      .send()
  reply.header('allow', match.allow)
  if (request.method !== 'OPTIONS')
    throw refuse('method_not_allowed', `this path does not have ${request.method}; it has: ${match.allow}`)
  if (match.cors)
    reply.headers({
      'access-control-allow-methods': match.allow,
      // `*` covers all headers but Authorization.
      'access-control-allow-headers': '*, authorization',
      'access-control-max-age': '86400',
    })
  return reply.code(204).headers(baseHeaders(request.exchange.requestId)).send()
}

/** Whether a raw URL leads to a page. */
const isUnder = (folder: string, url: string): boolean => {
  const [path = ''] = url.split('?')
  return path === folder || path.startsWith(`${folder}/`)
}

const fastifyPath = (path: string): string => path.replace(/\{([^{}]+)\}/g, ':$1')

/**
 * Creates the HTTP server for the declared routes. Every check before a handler runs here, in the order of
 * docs/reference/api.md. Every error is answered in the form of docs/reference/api.md. The server does not listen yet:
 * call `app.listen({ host, port })`.
 */
export const createHttpServer = (options: HttpServerOptions): FastifyInstance => {
  const { routes, directory, logger, metrics, limits, monotonicMs } = options
  const { modelOf = () => undefined } = options
  const trusted = options.trusted ?? noTrustedProxies
  const inFlight = createInFlight(
    {
      total: options.maxInFlight ?? defaultMaxInFlight,
      perAccount: limits
        ? (options.maxInFlightPerAccount ?? defaultMaxInFlightPerAccount)
        : Number.POSITIVE_INFINITY,
    },
    metrics,
  )
  const pendingBodies = createPendingBodies({
    ...defaultPendingBodyLimits,
    ...options.arriving,
    ...(limits ? {} : { perSender: Number.POSITIVE_INFINITY }),
  })
  const paths = pathTable(routes)
  const measureEventLoopDelay = createEventLoopDelayMeter(monotonicMs)

  const times = { ...defaultTimes, ...options.times }
  const hangUp = createHangUp(times.lingerMs)
  const unanswered = createPendingResponses()
  const connections = createConnections(
    { ...defaultConnectionLimits, ...options.connections },
    trusted,
    metrics,
  )
  const app = Fastify({
    logger: false,
    // While the server closes, requests on open connections are completed and answered in the usual form.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    clientErrorHandler: answerBrokenRequest(hangUp, unanswered),
    serverFactory: (handle) => {
      const listener = servePrebuiltAnswers({ routes, limits, trusted, connections, metrics, logger }, handle)
      return createNodeServer(listener, times, connections, hangUp, unanswered)
    },
    frameworkErrors: (_error, request, reply) =>
      sendRefusal(
        reply as HttpReply,
        requestIdOf(request as HttpRequest, undefined),
        null,
        refuseUnknownPath(),
      ),
    routerOptions: { ignoreTrailingSlash: false },
  })
  hangUpIdleOnClose(app, connections)
  app.decorateRequest('exchange', null as never)

  const logOf = (request: HttpRequest): Logger => logger.child({ requestId: request.exchange.requestId })

  const end = ({ method, exchange }: HttpRequest, status: number): void => {
    if (exchange.ended) return
    exchange.ended = true
    const ms = monotonicMs() - exchange.startedMs
    const template = exchange.route?.route.path ?? 'unknown'
    metrics.finished(method, template, status, ms / 1000)
    metrics.observeEventLoopDelay(method, template, exchange.eventLoopDelayMs / 1000)
    logger.info(
      {
        requestId: exchange.requestId,
        method,
        route: template,
        status,
        ms: Math.round(ms * 100) / 100,
        code: exchange.code ?? undefined,
        accountId: exchange.caller?.accountId,
        keyId: exchange.caller?.keyId ?? exchange.reader?.tokenId,
      },
      'request',
    )
  }

  /** Fastify reports only answers that were sent. A client may disconnect at any moment before. */
  const closed = (request: HttpRequest): void => {
    pendingBodies.leave(request.exchange)
    if (!request.exchange.atWork) inFlight.leave(request.exchange)
    end(request, clientClosed)
    request.exchange.gone?.abort()
  }

  const takeSlot = (exchange: Exchange): void => {
    if (exchange.route?.route.unlimited || exchange.hasPlace) return
    inFlight.enter(exchange)
    if (exchange.caller !== null) inFlight.enterFor(exchange, exchange.caller.accountId)
  }

  readBodies(app, {
    wait: (exchange, { bytes, fail }) => {
      inFlight.leave(exchange)
      pendingBodies.enter(exchange, bytes, fail)
    },
    enter: (exchange) => {
      pendingBodies.leave(exchange)
      takeSlot(exchange)
    },
    measureEventLoopDelay,
  })

  const enter = (exchange: Exchange): void => {
    const { unlimited, atOnce } = exchange.route?.route ?? {}
    takeSlot(exchange)
    if (!unlimited && atOnce === undefined) admitAddress(limits, exchange.address)
  }

  const unroutedHandler = (request: HttpRequest, reply: HttpReply): HttpReply => {
    inFlight.leave(request.exchange)
    return answerUnrouted(paths, request, reply)
  }

  app.addHook('onRequest', async (request: HttpRequest, reply) => {
    const compiled = isRouted(request) ? request.routeOptions.config.compiled : undefined
    request.exchange = {
      requestId: requestIdOf(request, compiled?.route),
      startedMs: monotonicMs(),
      address: clientAddress(request.raw, trusted),
      connection: connections.of(request.raw.socket),
      route: compiled ?? null,
      caller: null,
      reader: null,
      code: null,
      hasPlace: false,
      countedFor: null,
      atWork: false,
      eventLoopDelayMs: 0,
      ended: false,
      gone: null,
    }
    reply.raw.once('close', () => closed(request))
    enter(request.exchange)
    checkHost(request)
    if (compiled?.route.unlimited) return undefined
    if (compiled === undefined) return unroutedHandler(request, reply)
    const caller = await admit(compiled.route, request, reply, directory, limits)
    request.exchange.caller = caller
    if (caller !== null) inFlight.enterFor(request.exchange, caller.accountId)
    if (compiled.route.access === 'finance') {
      if (!options.financeDirectory) throw new Error('a route of finance without a directory of its tokens')
      request.exchange.reader = await admitFinance(request, reply, options.financeDirectory, limits)
    }
    checkCallId(request, compiled.route)
    return undefined
  })

  app.addHook('onResponse', (request: HttpRequest, reply, done) => {
    end(request, reply.statusCode)
    done()
  })

  app.setErrorHandler((error, request: HttpRequest, reply) => {
    const refusal = refusalOf(error, logger, request.exchange.requestId, modelOf)
    request.exchange.code = refusal.code
    pendingBodies.leave(request.exchange)
    inFlight.leave(request.exchange)
    const { requestId } = request.exchange
    if (options.pages?.under.some((path) => isUnder(path, request.url)))
      return sendRefusalPage(reply, requestId, refusal, options.pages.refused(refusal, requestId))
    sendRefusal(reply, requestId, request.exchange.route?.route ?? null, refusal)
  })

  app.setNotFoundHandler(unroutedHandler)

  const handle = async (
    compiled: CompiledRoute,
    request: HttpRequest,
    reply: HttpReply,
  ): Promise<HttpReply> => {
    const { exchange } = request
    exchange.atWork = true
    try {
      const running = measureEventLoopDelay(exchange, () => compiled.run(request, () => logOf(request)))
      const answer = await running
      measureEventLoopDelay(exchange, () => sendAnswer(reply, exchange.requestId, compiled.route, answer))
      return reply
    } finally {
      exchange.atWork = false
      inFlight.leave(exchange)
    }
  }

  for (const route of routes) {
    const compiled = compileRoute(route, options.customerIdOf)
    app.route({
      method: route.method,
      url: fastifyPath(route.path),
      config: { compiled },
      handler: (request, reply) => handle(compiled, request as HttpRequest, reply as HttpReply),
    })
  }
  return app
}

/**
 * Stops accepting connections, lets running requests finish and closes idle connections. After `graceMs` milliseconds
 * it cuts the remaining connections. The caller then closes the command runner and the log, which no request can reach
 * any more.
 * @returns whether every request ended in time
 */
export const shutDown = async (app: FastifyInstance, graceMs: number): Promise<boolean> => {
  let inTime = true
  const timer = setTimeout(() => {
    inTime = false
    app.server.closeAllConnections()
  }, graceMs)
  try {
    await app.close()
  } finally {
    clearTimeout(timer)
  }
  return inTime
}
