import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'

export type Front = {
  /** One address before all of them. */
  readonly url: string
  /** Takes connections to this server from now on, such as `http://127.0.0.1:40123`. */
  add(baseUrl: string): void
  remove(baseUrl: string): void
}

/**
 * A load balancer as small as it gets: each connection goes to one of the servers at random, and breaks when that one is
 * gone.
 */
export const openFront = async (t: TestContext): Promise<Front> => {
  const servers: string[] = []
  const sockets = new Set<Socket>()
  const pair = (one: Socket, other: Socket): void => {
    sockets.add(one)
    // A server that is killed breaks its connections: that is the point.
    one.on('error', () => undefined)
    one.once('close', () => {
      sockets.delete(one)
      other.destroy()
    })
    one.pipe(other)
  }
  const server = createServer((client) => {
    const target = servers[Math.floor(Math.random() * servers.length)]
    if (target === undefined) {
      client.destroy()
      return
    }
    const { hostname, port } = new URL(target)
    const upstream = connect(Number(port), hostname)
    pair(client, upstream)
    pair(upstream, client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    await closed
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    add: (baseUrl) => {
      servers.push(baseUrl)
    },
    remove: (baseUrl) => {
      const at = servers.indexOf(baseUrl)
      if (at >= 0) servers.splice(at, 1)
    },
  }
}
