import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { MonotonicClock } from '../kernel/clock.ts'
import { createDeadlines } from '../platform/work/deadlines.ts'
import { createAbortHandlers } from './admit/open-tunnels.ts'
import { defaultLimits, type GatewayLimits } from './client.ts'
import { createConnections, hardShare } from './connection.ts'
import { type Access, type Exits, type GatewayLogger, noMetrics, type ProxyMetrics } from './gateway-ports.ts'
import { createOnFault } from './refusals.ts'
import {
  cachedResolve,
  createTargetRules,
  defaultTargetPolicy,
  type Lookup,
  ownAddresses,
  queryDns,
  type TargetPolicy,
} from './targets.ts'

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

type ListenOptions = {
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

/** The data plane: accepts connections and relays bytes. The ports make all decisions. */
export const createGateway = (options: GatewayOptions): Gateway => {
  const { access, exits, clock, logger, allowLoopback = () => false } = options
  const limits: GatewayLimits = { ...defaultLimits, ...options.limits }
  const metrics = options.metrics ?? noMetrics
  const onFault = createOnFault({ logger, metrics })
  const ports = new Set<number>()
  const deadlines = createDeadlines(clock, limits.sweepMs)
  const connections = createConnections({
    access,
    exits,
    resolve: cachedResolve(options.lookup ?? queryDns(), clock),
    rules: createTargetRules(
      options.policy ?? defaultTargetPolicy,
      ownAddresses(clock, ports),
      allowLoopback,
    ),
    exitAuthorities: options.exitAuthorities ?? null,
    limits,
    metrics,
    logger,
    clock,
    deadlines,
    abortHandlers: createAbortHandlers(onFault),
    onFault,
  })
  const servers = new Map<string, Server>()
  const addressKey = (host: string, port: number): string => `${host} ${port}`
  const serverFor = ({ tls }: ListenOptions): Server => {
    const common = { allowHalfOpen: true, noDelay: true }
    if (tls === undefined) return createServer(common, connections.accept)
    const server = createTlsServer({ ...common, ...tls, handshakeTimeout: limits.headMs })
    // Counted from the first packet on, because an unfinished handshake uses a connection, too.
    const handshakes = new Map<string, () => void>()
    const peerKey = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`
    server.on('connection', (socket: Socket) => {
      const endCount = connections.count(socket)
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
      else connections.serve(socket, endCount)
    })
    return server
  }
  return {
    listen: async (endpoint) => {
      const server = serverFor(endpoint)
      server.listen({ port: endpoint.port, host: endpoint.host, reusePort: endpoint.shared ?? false })
      await once(server, 'listening')
      // A failed accept, such as for lack of file descriptors, must not end the process.
      server.on('error', (err) => logger.error({ err }, 'accepting a connection failed'))
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
      return connections.size
    },
    close: async () => {
      for (const server of servers.values()) server.close()
      await connections.drain()
      deadlines.stop()
    },
  }
}
