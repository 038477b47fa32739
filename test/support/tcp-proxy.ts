import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { ownPort } from './own-port.ts'

export type TcpProxy = {
  /** The address given, through the proxy. */
  readonly url: string
  /** From now on the server's bytes are dropped; the client's still pass. */
  mute(): void
  /** From now on nothing comes through in either direction, an end least of all: a network that was cut. */
  hang(): void
  /** Breaks every connection. */
  cut(): void
  /** Breaks every connection and refuses new ones until `accept`. */
  refuse(): Promise<void>
  /** Lets new connections through again, with answers. */
  accept(): Promise<void>
  /** New connections go to this address of a server that moved. */
  lead(target: string): void
}

/** A proxy between a client and a server that fails in the ways of a network. */
export const tcpProxy = async (t: TestContext, target: string): Promise<TcpProxy> => {
  let to = new URL(target)
  const sockets = new Set<Socket>()
  let muted = false
  let hung = false
  const keep = (socket: Socket, peer: Socket): void => {
    sockets.add(socket)
    // A broken connection is the point of this proxy.
    socket.on('error', () => undefined)
    socket.once('close', () => {
      sockets.delete(socket)
      if (!hung) peer.destroy()
    })
  }
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect(Number(to.port), to.hostname)
    keep(client, upstream)
    keep(upstream, client)
    client.on('data', (bytes) => {
      if (!hung) upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      if (!muted && !hung) client.write(bytes)
    })
    client.on('end', () => {
      if (!hung) client.end()
    })
  })
  const own = await ownPort()
  const listen = () => once(server.listen(own, '127.0.0.1'), 'listening')
  await listen()
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String(own)
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  const refuse = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    cut()
    await closed
  }
  t.after(() => (server.listening ? refuse() : undefined))
  return {
    url: url.toString(),
    mute: () => {
      muted = true
    },
    hang: () => {
      hung = true
    },
    cut,
    refuse,
    accept: async () => {
      muted = false
      hung = false
      if (!server.listening) await listen()
    },
    lead: (moved) => {
      to = new URL(moved)
    },
  }
}
