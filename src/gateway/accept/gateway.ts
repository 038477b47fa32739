import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { addressSubject } from '../../kernel/ip-address.ts'
import { peerAddress } from '../../platform/http/connections.ts'
import { createDeadlines } from '../../platform/work/deadlines.ts'
import { createDial } from '../dial/dial.ts'
import {
  type Access,
  type Exits,
  type GatewayLogger,
  noMetrics,
  type ProxyMetrics,
} from '../gateway-ports.ts'
import { serveHttp } from '../http/http-session.ts'
import { answerAndEnd, type OwnAnswer } from '../http/own-answer.ts'
import { atCapacity, createOnFault } from '../refusals.ts'
import { createAbortHandlers } from '../relay/cuts.ts'
import { serveSocks } from '../socks/socks-session.ts'
import { askDns, cachedResolve, type Lookup } from '../targets/resolve.ts'
import {
  createTargetRules,
  defaultTargetPolicy,
  ownAddresses,
  type TargetPolicy,
} from '../targets/targets.ts'
import { discardHandler } from './buffered-socket.ts'
import { type Client, type ClientConnection, createClient } from './client-connection.ts'
import { defaultLimits, type GatewayContext, type GatewayLimits } from './gateway-context.ts'

const socks5 = 0x05
/** "No acceptable methods" (RFC 1928 section 3): a SOCKS client gets no other error before it authenticates. */
const noAcceptableMethod = Buffer.of(5, 0xff)

/** A method begins with a token character. An empty line may precede it. */
const beginsHttp = (byte: number): boolean => /[!#$%&'*+\-.^_`|~0-9A-Za-z\r]/.test(String.fromCharCode(byte))

const unknownProtocol: OwnAnswer = {
  status: 400,
  error: 'bad_request',
  detail: 'Bad request: this port speaks HTTP/1.1 and SOCKS5, without TLS where it is not the TLS port.',
}

/** Detects the client's protocol by the first byte and serves it. @param atLimit the connection limit is reached */
export const serveConnection = (context: GatewayContext, client: Client, atLimit: boolean): void => {
  const { limits } = context
  const { wire, watch } = client
  const { socket } = wire
  watch.within(limits.headMs, () => socket.destroy())
  wire.use({
    bytes: (chunk) => {
      wire.unshift(chunk)
      const isSocks = chunk[0] === socks5
      if (!isSocks && !beginsHttp(chunk[0]!)) answerAndEnd(client, unknownProtocol, limits.lingerMs)
      else if (!atLimit) (isSocks ? serveSocks : serveHttp)(context, client)
      else if (isSocks) {
        client.refused(503, atCapacity().error)
        watch.within(limits.lingerMs, () => socket.destroy())
        wire.use(discardHandler)
        socket.end(noAcceptableMethod)
      } else answerAndEnd(client, atCapacity(), limits.lingerMs)
      return false
    },
    end: () => socket.end(),
    drain: () => undefined,
    closed: () => undefined,
    holds: () => false,
  })
}

export type GatewayOptions = {
  readonly access: Access
  readonly exits: Exits
  readonly clock: MonotonicClock
  readonly logger: GatewayLogger
  readonly policy?: TargetPolicy
  readonly limits?: Partial<GatewayLimits>
  readonly metrics?: ProxyMetrics
  readonly lookup?: Lookup
  /** Development only: every exit may connect to this machine's loopback. */
  readonly allowLoopback?: () => boolean
  /** Certificate authorities (PEM) for `https` exits, in place of the system's. */
  readonly exitAuthorities?: string
}

export type ListenOptions = {
  readonly host: string
  /** 0: any. */
  readonly port: number
  /** Other processes may listen on the same port. Each gets a share of the connections. */
  readonly shared?: boolean
  /** PEM. Makes the port an HTTPS proxy. */
  readonly tls?: { readonly key: string | Buffer; readonly cert: string | Buffer }
}

export type Gateway = {
  /** Listens on one more address. @returns the port */
  listen(options: ListenOptions): Promise<number>
  /** Stops listening on this address. Open connections continue. */
  unlisten(endpoint: { readonly host: string; readonly port: number }): void
  /** Open client connections. */
  readonly connections: number
  /** Stops listening, waits up to `drainMs` for open connections to end, and destroys the rest. */
  close(): Promise<void>
}

/** Connections beyond this share of the limit are closed without an answer. */
const hardShare = 1.1

/** The data plane: accepts connections and relays bytes. The ports make all decisions. */
export const createGateway = (options: GatewayOptions): Gateway => {
  const { access, exits, clock, logger } = options
  const limits: GatewayLimits = { ...defaultLimits, ...options.limits }
  const metrics = options.metrics ?? noMetrics
  const onFault = createOnFault({ logger, metrics })
  const ports = new Set<number>()
  const resolve = cachedResolve(options.lookup ?? askDns(), clock)
  const rules = createTargetRules(
    options.policy ?? defaultTargetPolicy,
    ownAddresses(clock, ports),
    options.allowLoopback ?? (() => false),
  )
  const context: GatewayContext = {
    access,
    exits,
    resolve,
    rules,
    limits,
    metrics,
    logger,
    clock,
    dial: createDial({ resolve, rules, ca: options.exitAuthorities ?? null, clock, onFault }),
    deadlines: createDeadlines(clock, limits.sweepMs),
    abortHandlers: createAbortHandlers(onFault),
    onFault,
  }
  const servers = new Map<string, Server>()
  const addressKey = (host: string, port: number): string => `${host} ${port}`
  const openConnections = new Set<ClientConnection>()
  const unauthenticated = new Map<string, number>()
  let onAllClosed = (): void => undefined

  const uncountUnauthenticated = (subject: string): void => {
    const remaining = (unauthenticated.get(subject) ?? 1) - 1
    if (remaining === 0) unauthenticated.delete(subject)
    else unauthenticated.set(subject, remaining)
  }
  /** Counts an unauthenticated connection. @returns a function that ends the count; null: the connection is closed */
  const countUnauthenticated = (socket: Socket): (() => void) | null => {
    const subject = addressSubject(peerAddress(socket))
    const unauthenticatedCount = unauthenticated.get(subject) ?? 0
    if (
      unauthenticatedCount >= limits.unauthenticatedPerAddress ||
      openConnections.size >= limits.connections * hardShare
    ) {
      metrics.refused(503, 'gateway_full')
      socket.destroy()
      return null
    }
    unauthenticated.set(subject, unauthenticatedCount + 1)
    let isUnauthenticated = true
    const endCount = (): void => {
      if (isUnauthenticated) uncountUnauthenticated(subject)
      isUnauthenticated = false
    }
    socket.once('close', endCount)
    return endCount
  }
  const acceptSocket = (socket: Socket): void => {
    socket.on('error', () => undefined) // the buffered socket reports it to the handler
    const endCount = countUnauthenticated(socket)
    if (endCount !== null) serve(socket, endCount)
  }
  const serve = (socket: Socket, endCount: () => void): void => {
    const connection = createClient(context, socket, endCount)
    openConnections.add(connection)
    metrics.connected()
    socket.once('close', () => {
      openConnections.delete(connection)
      metrics.disconnected()
      if (openConnections.size === 0) onAllClosed()
    })
    try {
      serveConnection(context, connection.client, openConnections.size > limits.connections)
    } catch (error) {
      onFault(error)
      socket.destroy()
    }
  }
  const serverFor = ({ tls }: ListenOptions): Server => {
    const common = { allowHalfOpen: true, noDelay: true }
    if (tls === undefined) return createServer(common, acceptSocket)
    const server = createTlsServer({ ...common, ...tls, handshakeTimeout: limits.headMs })
    // Counted from the first packet on, because an unfinished handshake uses a connection, too.
    const handshakes = new Map<string, () => void>()
    const peerKey = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`
    server.on('connection', (socket: Socket) => {
      const endCount = countUnauthenticated(socket)
      if (endCount === null) return
      const peer = peerKey(socket)
      handshakes.set(peer, endCount)
      socket.once('close', () => handshakes.delete(peer))
    })
    // Node reports a failed handshake or its timeout, but does not close the connection.
    server.on('tlsClientError', (_, socket) => socket.destroy())
    server.on('secureConnection', (socket) => {
      socket.on('error', () => undefined)
      const endCount = handshakes.get(peerKey(socket))
      if (endCount === undefined) socket.destroy()
      else serve(socket, endCount)
    })
    return server
  }
  return {
    listen: async (endpoint) => {
      const server = serverFor(endpoint)
      server.listen({ port: endpoint.port, host: endpoint.host, reusePort: endpoint.shared ?? false })
      await once(server, 'listening')
      // A failed accept, such as for lack of file descriptors, must not end the process.
      server.on('error', (err) => logger.error({ err }, 'a connection could not be taken'))
      server.maxConnections = Math.ceil(limits.connections * hardShare)
      const { port } = server.address() as AddressInfo
      servers.set(addressKey(endpoint.host, port), server)
      ports.add(port)
      return port
    },
    unlisten: ({ host, port }) => {
      servers.get(addressKey(host, port))?.close()
      servers.delete(addressKey(host, port))
    },
    get connections() {
      return openConnections.size
    },
    close: async () => {
      for (const server of servers.values()) server.close()
      if (openConnections.size > 0) {
        const allClosed = new Promise<void>((resolveClosed) => {
          onAllClosed = resolveClosed
        })
        for (const each of openConnections) each.drain()
        const destroyTimer = setTimeout(() => {
          for (const each of openConnections) each.destroy()
        }, limits.drainMs)
        await allClosed
        clearTimeout(destroyTimer)
      }
      context.deadlines.stop()
    },
  }
}
