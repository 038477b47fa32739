import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { MonotonicClock } from '../kernel/clock.ts'
import { unmapped } from '../kernel/ip-address.ts'
import type { TrustedProxies } from '../platform/http/connections.ts'
import { createDeadlines } from '../platform/work/deadlines.ts'
import { createAbortHandlers } from './admit/open-tunnels.ts'
import { defaultLimits, type GatewayLimits } from './client.ts'
import { createConnections, hardShare } from './connection.ts'
import { type Access, type Exits, type GatewayLogger, noMetrics, type ProxyMetrics } from './gateway-ports.ts'
import { type Peer, withProxyHeader } from './proxy-header.ts'
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
  /** The balancers. Each of their connections begins with a PROXY header, which has the address of the client. */
  readonly balancers?: TrustedProxies | null
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

const peerOf = ({ remoteAddress, localAddress }: Socket): Peer => ({
  source: unmapped(remoteAddress ?? ''),
  dialled: unmapped(localAddress ?? ''),
})

/** The data plane: accepts connections and relays bytes. The ports make all decisions. */
export const createGateway = (options: GatewayOptions): Gateway => {
  const { access, exits, clock, logger, allowLoopback = () => false, balancers = null } = options
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
    const serverOf = (serve: (socket: Socket, peer: Peer) => void): Server =>
      createServer(common, (socket) => {
        const peer = peerOf(socket)
        if (!balancers?.(peer.source)) return serve(socket, peer)
        withProxyHeader(
          socket,
          limits.headMs,
          (client) => serve(socket, client ?? peer),
          (reason) =>
            logger.debug({ balancer: peer.source, reason }, 'a connection of a balancer was closed'),
        )
      })
    if (tls === undefined) return serverOf(connections.accept)
    const tlsServer = createTlsServer({ ...common, ...tls, handshakeTimeout: limits.headMs })
    // Counted from the first packet on, because an unfinished handshake uses a connection, too.
    const handshakes = new Map<string, readonly [Peer, () => void]>()
    const keyOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`
    // Node reports a failed handshake or its timeout, but does not close the connection.
    tlsServer.on('tlsClientError', (_, socket) => socket.destroy())
    tlsServer.on('secureConnection', (socket) => {
      socket.on('error', () => undefined)
      const handshake = handshakes.get(keyOf(socket))
      if (handshake === undefined) socket.destroy()
      else connections.serve(socket, ...handshake)
    })
    return serverOf((socket, peer) => {
      const endCount = connections.count(socket, peer)
      if (endCount === null) return
      const key = keyOf(socket)
      handshakes.set(key, [peer, endCount])
      socket.once('close', () => handshakes.delete(key))
      tlsServer.emit('connection', socket)
    })
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
