import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, isIP, isIPv4, type Socket } from 'node:net'
import type { ExitTerms } from '../domain/exits/events.ts'
import { whoamiHost } from '../domain/shared/endpoint-fields.ts'
import { isAllowedAddress } from '../platform/outgoing/target.ts'

/** The connections of a sandbox exit to targets. */
export type ExitDial = {
  /**
   * @param shows the address that `whoami.sandbox` reports instead of the real one; null: the real one
   * @throws TargetForbidden for a forbidden target
   */
  tcp(host: string, port: number, shows?: string | null): Promise<Socket>
  /** The IP address for datagrams to this host; null for a forbidden target. */
  addressOf(host: string): Promise<string | null>
  udp(): Promise<UdpSocket>
}

export class TargetForbidden extends Error {
  override readonly name = 'TargetForbidden'
}

const isLoopback = (address: string): boolean => address.startsWith('127.')

/**
 * Creates real connections. Targets on this machine, if they are allowed, are connected from `own`, an address in
 * 127.0.0.0/8, so that a target can distinguish exits. If the system does not have that address (macOS has only
 * 127.0.0.1), the system chooses the source address.
 */
export const createExitDial = (options: {
  readonly own: string
  readonly allowLoopback: boolean
  /** The server of `whoami.sandbox`, which is always allowed as a target; null without one. */
  readonly whoami: Pick<Whoami, 'port' | 'shows'> | null
}): ExitDial => {
  const { own, allowLoopback, whoami } = options
  const allowedAddresses = async (host: string): Promise<readonly string[]> => {
    const resolved = isIP(host) ? [{ address: host }] : await lookup(host, { all: true })
    return resolved
      .map(({ address }) => address)
      .filter((address) => isAllowedAddress(address, { allowLoopback }))
  }
  const openSocket = (host: string, port: number, localAddress?: string): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const socket = connect({
        host,
        port,
        noDelay: true,
        allowHalfOpen: true,
        ...(localAddress && { localAddress }),
      })
      socket.setTimeout(10_000, () => socket.destroy(new Error('the target does not answer')))
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.setTimeout(0)
        socket.off('error', reject)
        resolve(socket)
      })
    })
  const connectFromOwn = (address: string, port: number): Promise<Socket> =>
    openSocket(address, port, own).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRNOTAVAIL') return openSocket(address, port)
      throw error
    })
  return {
    tcp: async (host, port, shows = null) => {
      if (host === whoamiHost && port === 80 && whoami !== null) {
        const socket = await connectFromOwn('127.0.0.1', whoami.port)
        if (shows !== null) whoami.shows(socket, shows)
        return socket
      }
      let lastError: unknown = new TargetForbidden('the sandbox reaches no address of this host')
      for (const address of await allowedAddresses(host))
        try {
          return await (isLoopback(address) ? connectFromOwn(address, port) : openSocket(address, port))
        } catch (error) {
          lastError = error
        }
      throw lastError
    },
    addressOf: async (host) => (await allowedAddresses(host)).find((address) => isIPv4(address)) ?? null,
    udp: () =>
      new Promise((resolve, reject) => {
        const socket = createSocket('udp4')
        socket.once('error', reject)
        socket.bind(0, allowLoopback ? own : undefined, () => resolve(socket))
      }),
  }
}

export type Whoami = {
  readonly port: number
  /** Reports `ip` as the source of all requests over this connection. Call it before sending data. */
  shows(socket: Socket, ip: string): void
  close(): Promise<void>
}

/**
 * Starts the server of `http://whoami.sandbox/`. It reports the sandbox exit of a request, by the source address. `/ip`
 * returns only the address.
 */
export const startWhoami = async (
  exits: ReadonlyMap<string, Pick<ExitTerms, 'exitId' | 'covers' | 'carrier'>>,
): Promise<Whoami> => {
  /** The reported addresses, by the local address and port of the exit's connection. */
  const shownIps = new Map<string, string>()
  const server = createServer((request, response) => {
    const { remoteAddress = '', remotePort } = request.socket
    const ip = shownIps.get(`${remoteAddress} ${remotePort}`) ?? remoteAddress
    if (request.url === '/ip') {
      response.writeHead(200, { 'content-type': 'text/plain' }).end(`${ip}\n`)
      return
    }
    const exit = exits.get(ip)
    const [cover] = exit?.covers ?? []
    const body = {
      sandbox: true,
      ip,
      exit: exit?.exitId ?? null,
      country: cover?.country ?? null,
      state: cover?.states[0]?.code ?? null,
      city: cover?.cities[0]?.code ?? null,
      isp: cover?.isps[0]?.code ?? null,
      asn: cover?.asns[0] ?? null,
      os: cover?.systems[0] ?? null,
      carrier: exit?.carrier ?? null,
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(`${JSON.stringify(body)}\n`)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    shows: (socket, ip) => {
      const endpointKey = `${socket.localAddress} ${socket.localPort}`
      shownIps.set(endpointKey, ip)
      socket.once('close', () => shownIps.delete(endpointKey))
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
