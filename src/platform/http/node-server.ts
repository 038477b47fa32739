import { createServer, type RequestListener, type Server } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { every } from '../../kernel/every.ts'
import { addressSubject, peerAddress, type TrustedProxies } from './client-address.ts'
import type { HangUp, PendingResponses } from './close-connection.ts'
import type { HttpMetrics } from './http-metrics.ts'

export type ConnectionLimits = {
  /** Open connections in all. */
  readonly total: number
  /** Those of one address, or of one IPv6 network of 64 bits. A trusted proxy has no such limit: it connects for everybody. */
  readonly perAddress: number
}

export const defaultConnectionLimits: ConnectionLimits = { total: 10_000, perAddress: 500 }

/** One connection as its requests see it. */
export type Connection = {
  /** A request of it is in work: it is not cut to make room. */
  markBusy(): void
  /** A request of it has left its place. */
  markIdle(): void
}

/** Of a request that came over no socket. */
const none: Connection = { markBusy: () => undefined, markIdle: () => undefined }

export type Connections = {
  /** Takes a new connection in, or hangs up on it. */
  take(socket: Socket): void
  of(socket: Socket): Connection
  readonly open: ReadonlySet<Socket>
}

/** Who connects from one place. `waiting` has those with no request in work, the one that waits longest first. */
type Group = { open: number; readonly waiting: Set<Socket> }

/**
 * Bounds connections, in all and by address. One too many makes room by cutting the connection that has waited longest for
 * its client (for a request, the rest of one, or the reading of an answer): of the same address, where that has its share,
 * else of all. So neither idle connections nor half-sent requests, however many, keep a new client out. Where every
 * connection has a request in work, the new one is cut.
 */
export const createConnections = (
  { total, perAddress }: ConnectionLimits,
  trusted: TrustedProxies,
  metrics: HttpMetrics,
): Connections => {
  const open = new Set<Socket>()
  const waiting = new Set<Socket>()
  const groups = new Map<string, Group>()
  const known = new WeakMap<Socket, Connection & { leave(): void }>()

  const cut = (socket: Socket): void => {
    known.get(socket)?.leave()
    socket.destroy()
    metrics.connectionCut()
  }

  /** @returns whether there is room now */
  const makeRoom = (among: ReadonlySet<Socket>): boolean => {
    const [longest] = among
    if (longest !== undefined) cut(longest)
    return longest !== undefined
  }

  const groupOf = (subject: string): Group => {
    const group = groups.get(subject) ?? { open: 0, waiting: new Set() }
    groups.set(subject, group)
    return group
  }

  const enter = (socket: Socket, subject: string | null): void => {
    const group = subject === null ? null : groupOf(subject)
    let working = 0
    const wait = (): void => {
      waiting.add(socket)
      group?.waiting.add(socket)
    }
    const unwait = (): void => {
      waiting.delete(socket)
      group?.waiting.delete(socket)
    }
    const leave = (): void => {
      if (!open.delete(socket)) return
      unwait()
      metrics.connections(open.size)
      if (group === null || subject === null) return
      group.open -= 1
      if (group.open === 0) groups.delete(subject)
    }
    open.add(socket)
    metrics.connections(open.size)
    if (group !== null) group.open += 1
    wait()
    known.set(socket, {
      markBusy: () => {
        working += 1
        if (working === 1) unwait()
      },
      markIdle: () => {
        working -= 1
        if (working === 0 && open.has(socket)) wait()
      },
      leave,
    })
    socket.once('close', leave)
  }

  return {
    open,
    of: (socket) => known.get(socket) ?? none,
    take: (socket) => {
      const peer = peerAddress(socket)
      const subject = trusted(peer) ? null : addressSubject(peer)
      const group = subject === null ? undefined : groups.get(subject)
      const fits =
        (group === undefined || group.open < perAddress || makeRoom(group.waiting)) &&
        (open.size < total || makeRoom(waiting))
      if (fits) enter(socket, subject)
      else cut(socket)
    },
  }
}

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
  unanswered: PendingResponses,
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
    const stop = every(sweepMs, sweep)
    app.server.once('close', stop)
    done()
  })
}
