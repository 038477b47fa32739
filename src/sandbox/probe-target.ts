import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { ExitTerms } from '../domain/exits/events.ts'

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
