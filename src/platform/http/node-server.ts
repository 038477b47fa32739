import { createServer, type RequestListener, type Server } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { Connections } from './connections.ts'
import type { HangUp } from './hang-up.ts'
import type { Unanswered } from './unanswered.ts'

/** Milliseconds. */
export type Times = {
  /** A client has this long to send its headers and body. */
  readonly requestMs: number
  /** How long a connection may be idle after an answer. */
  readonly keepAliveMs: number
  /** How long nothing may move on a connection before it is closed: its client may read no answer. */
  readonly silentMs: number
  /** How long a client has to read its last answer, or to send the rest of a body that nobody wants. */
  readonly lingerMs: number
}

export const defaultTimes: Times = {
  requestMs: 30_000,
  // Longer than the idle time of usual load balancers (60 s), so that they close first and no request is lost.
  keepAliveMs: 65_000,
  silentMs: 120_000,
  lingerMs: 2_000,
}

/** Node looks for late requests this often, every 30 s where nothing is said. */
const checkMs = 500
const sweepMs = 20

/** Node's HTTP server with the bounds that hold for a connection whatever it asks. */
export const createNodeServer = (
  handle: RequestListener,
  times: Times,
  connections: Connections,
  hangUp: HangUp,
  unanswered: Unanswered,
): Server => {
  const server = createServer(
    {
      // Node's own refusal has neither a body nor a request id; `checkHost` has both.
      requireHostHeader: false,
      headersTimeout: times.requestMs,
      requestTimeout: times.requestMs,
      keepAliveTimeout: times.keepAliveMs,
      connectionsCheckingInterval: checkMs,
    },
    handle,
  )
  server.setTimeout(times.silentMs)
  server.on('connection', (socket) => {
    connections.take(socket)
    // Node closes with it after a last answer: at once, with a reset when bytes are unread.
    socket.destroySoon = () => hangUp.end(socket)
  })
  server.on('request', (request, response) => {
    // It was ready (`ready-answers.ts`): nothing is owed any more.
    if (response.writableEnded) return
    unanswered.add(request, response)
    response.once('finish', () => {
      if (request.complete) return
      const { socket } = request
      // No listener takes the timer off: thousands of such requests may come over one connection.
      setTimeout(() => void (request.complete || socket.destroy()), times.lingerMs).unref()
    })
  })
  // An Expect that is not 100-continue is ignored, as RFC 9110 allows; without a listener Node answers an empty 417.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  return server
}

/**
 * Hangs up connections that have no request, from the moment the server closes. Node itself does so only once, at that
 * moment, and counts a connection that never sent a byte as busy: a client that keeps its connection alive, or only
 * opened one, would hold a shutdown up until its time is over.
 */
export const hangUpIdleOnClose = (app: FastifyInstance, { open }: Connections): void => {
  const sweep = (): void => {
    app.server.closeIdleConnections()
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy()
  }
  app.addHook('preClose', (done) => {
    // A server that never listened tells of no close.
    const timer = setInterval(sweep, sweepMs).unref()
    app.server.once('close', () => clearInterval(timer))
    done()
  })
}
