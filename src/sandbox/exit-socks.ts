import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { isIPv4, type Socket } from 'node:net'
import { type ExitDial, TargetForbidden } from './exit-dial.ts'

/** Reads chunks of a given size from a client before its tunnel begins. */
export type ChunkReader = { take(bytes: number): Promise<Buffer> }

export const createChunkReader = (socket: Socket): ChunkReader => ({
  take: async (bytes) => {
    for (;;) {
      const chunk = socket.read(bytes) as Buffer | null
      if (chunk !== null) return chunk
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
export const hostOf = async (
  kind: number,
  readBytes: (bytes: number) => Promise<Buffer>,
): Promise<string> => {
  if (kind === 1) return [...(await readBytes(4))].join('.')
  if (kind === 3) return (await readBytes((await readBytes(1))[0] ?? 0)).toString('latin1')
  const bytes = await readBytes(16)
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
const parseDatagram = async (datagram: Buffer): Promise<(Target & { readonly payload: Buffer }) | null> => {
  if (datagram.length < 8 || datagram[2] !== 0) return null
  let at = 4
  const readBytes = async (bytes: number): Promise<Buffer> => {
    at += bytes
    return datagram.subarray(at - bytes, at)
  }
  const host = await hostOf(datagram[3] ?? 0, readBytes)
  const port = await readBytes(2)
  return port.length < 2 ? null : { host, port: port.readUInt16BE(), payload: datagram.subarray(at) }
}

/** Forwards datagrams between a client and its targets until the client's TCP connection ends. */
const associate = async (socket: Socket, dial: ExitDial): Promise<void> => {
  const clientUdp = createSocket('udp4')
  await new Promise<void>((resolve) => clientUdp.bind(0, '127.0.0.1', resolve))
  const targetUdp: UdpSocket = await dial.udp()
  let client: Target | null = null
  const forwardDatagram = async (datagram: Buffer): Promise<void> => {
    const parsed = await parseDatagram(datagram)
    const address = parsed && (await dial.addressOf(parsed.host))
    if (parsed && address !== null) targetUdp.send(parsed.payload, parsed.port, address, () => undefined)
  }
  clientUdp.on('message', (datagram, { address: host, port }) => {
    client ??= { host, port }
    if (client.port !== port) return
    // A datagram that is invalid, or has an invalid target, is dropped.
    forwardDatagram(datagram).catch(() => undefined)
  })
  targetUdp.on('message', (payload, { address: host, port }) => {
    if (client !== null)
      clientUdp.send(
        Buffer.concat([reply(0, { host, port }).fill(0, 0, 3), payload]),
        client.port,
        client.host,
        () => undefined,
      )
  })
  for (const udpSocket of [clientUdp, targetUdp]) udpSocket.on('error', () => socket.destroy())
  socket.once('close', () => {
    clientUdp.close()
    targetUdp.close()
  })
  socket.resume().once('end', () => socket.end())
  socket.write(reply(0, { host: '127.0.0.1', port: clientUdp.address().port }))
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
  const { take: readBytes } = createChunkReader(socket)
  const byte = async (): Promise<number> => (await readBytes(1))[0] ?? 0
  const methods = await readBytes(await byte())
  if (!methods.includes(2)) return void socket.end(Buffer.of(5, 255))
  socket.write(Buffer.of(5, 2))
  await byte()
  const username = (await readBytes(await byte())).toString()
  const password = (await readBytes(await byte())).toString()
  const authClient = options.signsIn(username, password)
  socket.write(Buffer.of(1, authClient ? 0 : 1))
  if (!authClient) return void socket.end()
  const [, command, , kind = 0] = await readBytes(4)
  const host = await hostOf(kind, readBytes)
  const target = { host, port: (await readBytes(2)).readUInt16BE() }
  await options.wait()
  if (command === 3) return associate(socket, options.dial)
  if (command !== 1) return void socket.end(reply(7, nullTarget))
  try {
    const out = await options.dial.tcp(target.host, target.port, authClient.shows)
    socket.write(reply(0, nullTarget))
    options.tunnel(socket, out)
  } catch (error) {
    socket.end(reply(codeOf(error), nullTarget))
  }
}
