import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { isIP, isIPv4, isIPv6, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { every } from '../../kernel/every.ts'
import { type AddressSet, addressSet, addressSubject, listed, unmapped } from '../../kernel/ip-address.ts'
import type { HttpMetrics } from './gauges.ts'

/** Whether an address is one of the operator's own proxies, whose `X-Forwarded-For` is trusted. */
export type TrustedProxies = AddressSet

export const noTrustedProxies: TrustedProxies = () => false

/**
 * Trusted proxies from a comma-separated list of addresses and networks, e.g. `127.0.0.1, 10.0.0.0/8`.
 * @throws Error that names an entry that is neither an address nor a network
 */
export const trustedProxies = (list: string): TrustedProxies => {
  const entries = listed(list)
  return entries.length === 0 ? noTrustedProxies : addressSet(entries)
}

/** The address of the peer: the client, or a proxy in front of it. */
export const peerAddress = ({ remoteAddress }: Socket): string => unmapped(remoteAddress ?? '')

const port = /^:\d{1,5}$/

/**
 * The address of an entry of `X-Forwarded-For`. Some proxies write its port as well: `203.0.113.7:4711`,
 * `[2001:db8::1]:443`. An entry in neither form is returned unchanged.
 */
const addressOf = (entry: string): string => {
  const bracketed = entry.startsWith('[')
  const end = entry.indexOf(bracketed ? ']' : ':')
  if (end === -1) return entry
  const address = entry.slice(bracketed ? 1 : 0, end)
  const rest = entry.slice(bracketed ? end + 1 : end)
  const isAddress = bracketed ? isIPv6(address) : isIPv4(address)
  return isAddress && (port.test(rest) || (bracketed && rest === '')) ? address : entry
}

/**
 * The client's address: the peer's, or, if the peer is a trusted proxy, the last entry of `X-Forwarded-For` that is not
 * a trusted proxy. Earlier entries are the client's own claim and are not trusted.
 */
export const clientAddress = (request: IncomingMessage, trusted: TrustedProxies): string => {
  let address = peerAddress(request.socket)
  if (trusted === noTrustedProxies || !trusted(address)) return address
  const forwarded = request.headers['x-forwarded-for']
  const chain = (Array.isArray(forwarded) ? forwarded.join(',') : (forwarded ?? '')).split(',')
  for (let at = chain.length - 1; at >= 0 && trusted(address); at--) {
    const entry = unmapped(addressOf((chain[at] ?? '').trim()))
    if (isIP(entry) === 0) return address
    address = entry
  }
  return address
}

/** The shortest prefix of an operator's own proxy networks, bits. The prefixes of content networks are longer. */
const narrowest = { ipv4: 8, ipv6: 20 } as const

/** Unique local addresses (RFC 4193) are not used on the public Internet. */
const isUniqueLocal = addressSet(['fc00::/7'])

const isWide = (entry: string): boolean => {
  const [address = '', prefix] = entry.split('/')
  if (prefix === undefined) return false
  const bits = Number(prefix)
  if (isIPv4(address)) return bits < narrowest.ipv4
  return bits < narrowest.ipv6 && !(bits >= 7 && isUniqueLocal(address))
}

/** The entries of a valid list of trusted proxies that cover a large part of the Internet, such as `0.0.0.0/0`. */
export const wideNetworks = (list: string): readonly string[] => listed(list).filter(isWide)

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
    // `answer.ts` has answered it already.
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

export type HangUp = {
  /**
   * Ends a connection after all data written to it, and after `last`. Meanwhile it reads and drops what the client
   * still sends: unread bytes at the close make the kernel send a reset, which can destroy the answer before the client
   * reads it. After the linger time the connection is destroyed, even if the client has not closed it.
   */
  end(socket: Socket, last?: string): void
  /** Whether `end` was called for the connection. */
  has(socket: Socket): boolean
}

export const createHangUp = (lingerMs: number): HangUp => {
  const ending = new WeakSet<Socket>()
  return {
    end: (socket, last) => {
      if (ending.has(socket) || socket.destroyed) return
      ending.add(socket)
      const timer = setTimeout(() => socket.destroy(), lingerMs)
      socket.once('close', () => clearTimeout(timer))
      if (last === undefined) socket.end()
      else socket.end(last)
      socket.resume()
    },
    has: (socket) => ending.has(socket),
  }
}

/** The requests of each connection that have no complete answer yet. A client may send several before it reads. */
export type PendingResponses = {
  add(request: IncomingMessage, response: ServerResponse): void
  /** The last pending answer, among the requests that were received completely. */
  last(socket: Socket): ServerResponse | undefined
}

export const createPendingResponses = (): PendingResponses => {
  const pendingBySocket = new WeakMap<Socket, Set<ServerResponse>>()
  return {
    add: ({ socket }, response) => {
      const answers = pendingBySocket.get(socket) ?? new Set()
      pendingBySocket.set(socket, answers.add(response))
      response.once('close', () => answers.delete(response))
    },
    last: (socket) => [...(pendingBySocket.get(socket) ?? [])].findLast(({ req }) => req.complete),
  }
}
