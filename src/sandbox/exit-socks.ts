import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { isIPv4, type Socket } from 'node:net'
import { type ExitDial, TargetForbidden } from './exit-dial.ts'

/** Reads chunks of a given size from a client before its tunnel begins. */
export type ChunkReader = { take(bytes: number): Promise<Buffer> }

export const createChunkReader = (socket: Socket): ChunkReader => ({
  take: async (bytes) => {
    for (;;) {
      const piece = socket.read(bytes) as Buffer | null
      if (piece !== null) return piece
      if (socket.readableEnded || socket.destroyed) throw new Error('the client is gone')
      await new Promise<void>((resolve) => {
        const done = (): void => {
          for (const event of ['readable', 'end', 'close', 'error']) socket.off(event, done)
          resolve()
        }
        for (const event of ['readable', 'end', 'close', 'error']) socket.on(event, done)
      })
    }
  },
})

type Target = { readonly host: string; readonly port: number }

/** The host of a SOCKS5 request, by its address type (RFC 1928, section 4). */
export const hostOf = async (kind: number, take: (bytes: number) => Promise<Buffer>): Promise<string> => {
  if (kind === 1) return [...(await take(4))].join('.')
  if (kind === 3) return (await take((await take(1))[0] ?? 0)).toString('latin1')
  const bytes = await take(16)
  return Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(2 * at).toString(16)).join(':')
}

/** A SOCKS5 reply. */
export const reply = (code: number, { host, port }: Target): Buffer =>
  Buffer.of(
    5,
    code,
    0,
    1,
    ...(isIPv4(host) ? host.split('.').map(Number) : [0, 0, 0, 0]),
    port >> 8,
    port & 255,
  )

export const nullTarget: Target = { host: '0.0.0.0', port: 0 }

const codeOf = (error: unknown): number => {
  if (error instanceof TargetForbidden) return 2
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ECONNREFUSED') return 5
  return code === 'ENOTFOUND' || code === 'EHOSTUNREACH' ? 4 : 1
}

/** Parses a datagram of a client (RFC 1928, section 7). Null for a fragment or an invalid datagram. */
const unwrapped = async (datagram: Buffer): Promise<(Target & { readonly payload: Buffer }) | null> => {
  if (datagram.length < 8 || datagram[2] !== 0) return null
  let at = 4
  const take = async (bytes: number): Promise<Buffer> => {
    at += bytes
    return datagram.subarray(at - bytes, at)
  }
  const host = await hostOf(datagram[3] ?? 0, take)
  const port = await take(2)
  return port.length < 2 ? null : { host, port: port.readUInt16BE(), payload: datagram.subarray(at) }
}

/** Forwards datagrams between a client and its targets until the client's TCP connection ends. */
const associate = async (socket: Socket, dial: ExitDial): Promise<void> => {
  const inside = createSocket('udp4')
  await new Promise<void>((resolve) => inside.bind(0, '127.0.0.1', resolve))
  const outside: UdpSocket = await dial.udp()
  let client: Target | null = null
  const passOn = async (datagram: Buffer): Promise<void> => {
    const sent = await unwrapped(datagram)
    const address = sent && (await dial.addressOf(sent.host))
    if (sent && address !== null) outside.send(sent.payload, sent.port, address, () => undefined)
  }
  inside.on('message', (datagram, { address: host, port }) => {
    client ??= { host, port }
    if (client.port !== port) return
    // A datagram that is invalid, or has an invalid target, is dropped.
    passOn(datagram).catch(() => undefined)
  })
  outside.on('message', (payload, { address: host, port }) => {
    if (client !== null)
      inside.send(
        Buffer.concat([reply(0, { host, port }).fill(0, 0, 3), payload]),
        client.port,
        client.host,
        () => undefined,
      )
  })
  for (const side of [inside, outside]) side.on('error', () => socket.destroy())
  socket.once('close', () => {
    inside.close()
    outside.close()
  })
  socket.resume().once('end', () => socket.end())
  socket.write(reply(0, { host: '127.0.0.1', port: inside.address().port }))
}

/** Serves a SOCKS5 connection (RFC 1928 and 1929). Its first byte has been read already. */
export const serveSocks = async (
  socket: Socket,
  options: {
    readonly dial: ExitDial
    readonly signsIn: (username: string, password: string) => { readonly shows: string | null } | null
    readonly wait: () => Promise<void>
    readonly tunnel: (client: Socket, target: Socket) => void
  },
): Promise<void> => {
  const { take } = createChunkReader(socket)
  const byte = async (): Promise<number> => (await take(1))[0] ?? 0
  const methods = await take(await byte())
  if (!methods.includes(2)) return void socket.end(Buffer.of(5, 255))
  socket.write(Buffer.of(5, 2))
  await byte()
  const username = (await take(await byte())).toString()
  const password = (await take(await byte())).toString()
  const guest = options.signsIn(username, password)
  socket.write(Buffer.of(1, guest ? 0 : 1))
  if (!guest) return void socket.end()
  const [, command, , kind = 0] = await take(4)
  const host = await hostOf(kind, take)
  const target = { host, port: (await take(2)).readUInt16BE() }
  await options.wait()
  if (command === 3) return associate(socket, options.dial)
  if (command !== 1) return void socket.end(reply(7, nullTarget))
  try {
    const out = await options.dial.tcp(target.host, target.port, guest.shows)
    socket.write(reply(0, nullTarget))
    options.tunnel(socket, out)
  } catch (error) {
    socket.end(reply(codeOf(error), nullTarget))
  }
}
