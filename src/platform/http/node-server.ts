import { createServer, type RequestListener, type Server } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { every } from '../../kernel/clock.ts'
import { addressSubject, peerAddress, type TrustedProxies } from './client-address.ts'
import type { HangUp, PendingResponses } from './close-connection.ts'
import type { HttpMetrics } from './http-metrics.ts'

export type ConnectionLimits = {
  /** Open connections in all. */
  readonly total: number
  /**
   * Those of one address, or of one IPv6 /64 network. A trusted proxy has no such limit: it connects for all clients.
   */
  readonly perAddress: number
}

export const defaultConnectionLimits: ConnectionLimits = { total: 10_000, perAddress: 500 }

/** One connection, for its requests. */
export type Connection = {
  /** A request of the connection is in progress. The connection is not closed to make room. */
  markBusy(): void
  /** A request of the connection has left its slot. */
  markIdle(): void
}

/** For a request without a socket. */
const none: Connection = { markBusy: () => undefined, markIdle: () => undefined }

export type Connections = {
  /** Accepts a new connection, or closes it. */
  take(socket: Socket): void
  of(socket: Socket): Connection
  readonly open: ReadonlySet<Socket>
}

/** The connections of one address. `waiting` has those without a request in progress, the longest waiting first. */
type Group = { open: number; readonly waiting: Set<Socket> }

/**
 * Limits connections, in total and by address. At the limit, the connection that has waited longest for its client is
 * closed. It waits for a request, the rest of a request, or the reading of an answer. If the address is at its limit, a
 * connection of that address is closed, else one of all. So idle connections and half-sent requests, however many, do
 * not block a new client. If every connection has a request in progress, the new one is closed.
 */
export const createConnections = (
  { total, perAddress }: ConnectionLimits,
  trusted: TrustedProxies,
  metrics: HttpMetrics,
): Connections => {
  const open = new Set<Socket>()
  const waiting = new Set<Socket>()
  const groups = new Map<string, Group>()
  const connectionsBySocket = new WeakMap<Socket, Connection & { leave(): void }>()

  const disconnect = (socket: Socket): void => {
    connectionsBySocket.get(socket)?.leave()
    socket.destroy()
    metrics.connectionCut()
  }

  /** @returns whether there is room now */
  const makeRoom = (candidates: ReadonlySet<Socket>): boolean => {
    const [longest] = candidates
    if (longest !== undefined) disconnect(longest)
    return longest !== undefined
  }

  const groupOf = (subject: string): Group => {
    const group = groups.get(subject) ?? { open: 0, waiting: new Set() }
    groups.set(subject, group)
    return group
  }

  const register = (socket: Socket, subject: string | null): void => {
    const group = subject === null ? null : groupOf(subject)
    let activeRequests = 0
    const wait = (): void => {
      waiting.add(socket)
      group?.waiting.add(socket)
    }
    const stopWaiting = (): void => {
      waiting.delete(socket)
      group?.waiting.delete(socket)
    }
    const unregister = (): void => {
      if (!open.delete(socket)) return
      stopWaiting()
      metrics.connections(open.size)
      if (group === null || subject === null) return
      group.open -= 1
      if (group.open === 0) groups.delete(subject)
    }
    open.add(socket)
    metrics.connections(open.size)
    if (group !== null) group.open += 1
    wait()
    connectionsBySocket.set(socket, {
      markBusy: () => {
        activeRequests += 1
        if (activeRequests === 1) stopWaiting()
      },
      markIdle: () => {
        activeRequests -= 1
        if (activeRequests === 0 && open.has(socket)) wait()
      },
      leave: unregister,
    })
    socket.once('close', unregister)
  }

  return {
    open,
    of: (socket) => connectionsBySocket.get(socket) ?? none,
    take: (socket) => {
      const peer = peerAddress(socket)
      const subject = trusted(peer) ? null : addressSubject(peer)
      const group = subject === null ? undefined : groups.get(subject)
      const fits =
        (group === undefined || group.open < perAddress || makeRoom(group.waiting)) &&
        (open.size < total || makeRoom(waiting))
      if (fits) register(socket, subject)
      else disconnect(socket)
    },
  }
}

/** Milliseconds. */
export type Times = {
  /** A client has this long to send its headers and body. */
  readonly requestMs: number
  /** How long a connection may be idle after an answer. */
  readonly keepAliveMs: number
  /** A connection without traffic is closed after this time: its client may not read the answer. */
  readonly silentMs: number
  /** How long a client has to read its last answer, or to send the rest of a body that is not needed. */
  readonly lingerMs: number
}

export const defaultTimes: Times = {
  requestMs: 30_000,
  // Longer than the idle time of usual load balancers (60 s), so that they close first and no request is lost.
  keepAliveMs: 65_000,
  silentMs: 120_000,
  lingerMs: 2_000,
}

/** How often Node checks for late requests. Its default is 30 s. */
const checkMs = 500
const sweepMs = 20

/** Creates Node's HTTP server with the limits that apply to every connection. */
export const createNodeServer = (
  handle: RequestListener,
  times: Times,
  connections: Connections,
  hangUp: HangUp,
  unanswered: PendingResponses,
): Server => {
  const server = createServer(
    {
      // Node's own refusal has no body and no request id. The refusal of `checkHost` has both.
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
    // Node calls it after a last answer. Node's own version closes at once, with a reset if bytes are unread.
    socket.destroySoon = () => hangUp.end(socket)
  })
  server.on('request', (request, response) => {
    // `ready-answers.ts` has answered it already.
    if (response.writableEnded) return
    unanswered.add(request, response)
    response.once('finish', () => {
      if (request.complete) return
      const { socket } = request
      // No `close` listener clears the timer, because thousands of such requests may use one connection.
      setTimeout(() => void (request.complete || socket.destroy()), times.lingerMs).unref()
    })
  })
  // An Expect that is not 100-continue is ignored, as RFC 9110 allows; without a listener Node answers an empty 417.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  return server
}

/**
 * Closes connections without a request from the moment the server closes. Node does so only once, at that moment, and
 * counts a connection that never sent a byte as busy. A client that keeps its connection alive, or only opened one,
 * would delay a shutdown until its time limit.
 */
export const hangUpIdleOnClose = (app: FastifyInstance, { open }: Connections): void => {
  const sweep = (): void => {
    app.server.closeIdleConnections()
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy()
  }
  app.addHook('preClose', (done) => {
    // A server that never listened emits no `close` event.
    const stop = every(sweepMs, sweep)
    app.server.once('close', stop)
    done()
  })
}
