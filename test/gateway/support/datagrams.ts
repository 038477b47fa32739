import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, isIPv4, type Socket as TcpSocket } from 'node:net'
import type { TestContext } from 'node:test'
import { atEnd } from '../../support/cleanup.ts'
import { until } from '../../support/until.ts'
import { plainLine } from './memory-ports.ts'

export const udpLine = { ...plainLine, targeting: { ...plainLine.targeting, udp: true } }

const bound = async (t: TestContext, address: string): Promise<Socket> => {
  const socket = createSocket('udp4')
  socket.bind(0, address)
  await once(socket, 'listening')
  atEnd(t, () => socket.close())
  return socket
}

/** A datagram as RFC 1928 section 7 wraps it, to an IPv4 address or a name. */
export const wrapped = (host: string, port: number, payload: string | Buffer, fragment = 0): Buffer => {
  const address = isIPv4(host)
    ? Buffer.of(1, ...host.split('.').map(Number))
    : Buffer.concat([Buffer.of(3, host.length), Buffer.from(host)])
  return Buffer.concat([
    Buffer.of(0, 0, fragment),
    address,
    Buffer.of(port >> 8, port & 255),
    Buffer.from(payload),
  ])
}

/** How long the header of a datagram is; null where it is none. */
export const headerLength = (bytes: Buffer): number | null => {
  const length = { 1: 10, 3: 7 + (bytes[4] ?? 0), 4: 22 }[bytes[3] ?? 0]
  return length === undefined || length > bytes.length ? null : length
}

export type UdpClient = {
  readonly socket: Socket
  /** Payloads that came. */
  readonly came: Buffer[]
  send(bytes: Buffer): void
  /** The next one that comes. */
  next(): Promise<Buffer>
}

/** A client of the relay on this port. @param from its own address */
export const udpClient = async (t: TestContext, relay: number, from = '127.0.0.1'): Promise<UdpClient> => {
  const socket = await bound(t, from)
  const came: Buffer[] = []
  let read = 0
  socket.on('message', (bytes) => {
    const length = headerLength(bytes)
    if (length !== null) came.push(bytes.subarray(length))
  })
  return {
    socket,
    came,
    send: (bytes) => socket.send(bytes, relay, '127.0.0.1'),
    next: async () => {
      await until(() => came.length > read)
      return came[read++]!
    },
  }
}

/** Answers each datagram. @returns its port */
export const udpTarget = async (
  t: TestContext,
  answer: (payload: Buffer, from: RemoteInfo) => Buffer = (payload) => payload,
): Promise<number> => {
  const socket = await bound(t, '127.0.0.1')
  socket.on('message', (bytes, from) => socket.send(answer(bytes, from), from.port, from.address))
  return socket.address().port
}

export type FakeExit = {
  readonly port: number
  /** Datagrams that came to the relay. */
  readonly came: Buffer[]
  /** The relay's replies to each datagram. */
  answer: (bytes: Buffer) => readonly Buffer[]
  /** Breaks the connections of associations. */
  breakOff(): void
}

/**
 * A SOCKS5 server that accepts every client and whose relay drops everything.
 * @param named the stated address of its relay
 */
export const fakeExit = async (
  t: TestContext,
  { named = '0.0.0.0', reply = 0 }: { readonly named?: string; readonly reply?: number } = {},
): Promise<FakeExit> => {
  const relay = await bound(t, '127.0.0.1')
  const { port: relayPort } = relay.address()
  const controls = new Set<TcpSocket>()
  const exit: FakeExit = {
    port: 0,
    came: [],
    answer: (bytes) => [bytes],
    breakOff: () => {
      for (const each of controls) each.destroy()
    },
  }
  relay.on('message', (bytes, from) => {
    exit.came.push(bytes)
    for (const back of exit.answer(bytes)) relay.send(back, from.port, from.address)
  })
  const server = createServer((socket) => {
    controls.add(socket)
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write(Buffer.of(5, 0))
      socket.once('data', () => {
        const where = Buffer.of(...named.split('.').map(Number), relayPort >> 8, relayPort & 255)
        socket.write(Buffer.concat([Buffer.of(5, reply, 0, 1), where]))
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    exit.breakOff()
    server.close()
  })
  return Object.assign(exit, { port: (server.address() as { port: number }).port })
}
