import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ExitTerms } from '../gateway/exits/events.ts'

/** Answers `http://whoami.sandbox/`: through which exit of the sandbox a request came, by the address that it came from. */
export const startWhoami = async (
  exits: ReadonlyMap<string, Pick<ExitTerms, 'exitId' | 'covers' | 'carrier'>>,
): Promise<{ readonly port: number; close(): Promise<void> }> => {
  const server = createServer((request, response) => {
    const ip = request.socket.remoteAddress ?? ''
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
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
