import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import {
  createServer as createHttpServer,
  type IncomingMessage,
  request,
  type ServerResponse,
} from 'node:http'
import { createServer, isIPv4, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createExitDial, type ExitDial, TargetForbidden, type Whoami } from './exit-dial.ts'

/** An exit of the sandbox: a real HTTP and SOCKS5 proxy on its own loopback port. */
export type ExitProxy = {
  readonly port: number
  readonly state: () => { readonly alive: boolean; readonly slowMs: number }
  /** Stops listening and closes all connections. */
  kill(): Promise<void>
  /** Listens on its port again. */
  revive(): Promise<void>
  /** Sets a delay before each connection to a target, milliseconds. */
  slow(ms: number): void
}

/** A signed-in client. `shows`: the address that `whoami.sandbox` reports; null: the address of the exit. */
export type AuthenticatedClient = { readonly shows: string | null }
export type Authenticate = (username: string, password: string) => AuthenticatedClient | null

/** Forwards bytes in both directions, and the end of each side to the other. */
export const tunnel = (client: Socket, target: Socket): void => {
  const end = (): void => {
    client.destroy()
    target.destroy()
  }
  client.on('error', end)
  target.on('error', end)
  client.once('close', () => target.destroy())
  target.once('close', () => client.end())
  client.pipe(target)
  target.pipe(client)
}

const hopByHop = new Set([
  'connection',
  'proxy-authorization',
  'proxy-connection',
  'keep-alive',
  'te',
  'upgrade',
])

/** The header lines that a proxy forwards. */
export const forwardedHeaders = (headers: IncomingMessage['rawHeaders']): string[] =>
  headers.flatMap((name, at) =>
    at % 2 === 0 && !hopByHop.has(name.toLowerCase()) ? [name, headers[at + 1] ?? ''] : [],
  )

export const startExitProxy = async (options: {
  /** The source address for targets on this machine. */
  readonly own: string
  readonly signsIn: Authenticate
  readonly allowLoopback: boolean
  readonly whoami: Pick<Whoami, 'port' | 'shows'>
}): Promise<ExitProxy> => {
  const { signsIn } = options
  const dial = createExitDial(options)
  const authenticateRequest = ({ headers }: IncomingMessage): AuthenticatedClient | null => {
    const [, credentials = ''] = /^Basic (.+)$/i.exec(headers['proxy-authorization'] ?? '') ?? []
    const [, username = '', password = ''] =
      /^([^:]*):(.*)$/.exec(Buffer.from(credentials, 'base64').toString()) ?? []
    return signsIn(username, password)
  }
  let slowMs = 0
  const applyDelay = async (): Promise<void> => {
    if (slowMs > 0) await sleep(slowMs)
  }
  const statusOf = (error: unknown): number => (error instanceof TargetForbidden ? 403 : 502)

  const forward = async (from: IncomingMessage, to: ServerResponse): Promise<void> => {
    const refuse = (status: number): void =>
      void to.writeHead(status, { connection: 'close' }).end('SANDBOX\n')
    const authClient = authenticateRequest(from)
    if (authClient === null) return void to.writeHead(407, { 'proxy-authenticate': 'Basic' }).end()
    const url = URL.parse(from.url ?? '')
    if (url?.protocol !== 'http:') return refuse(400)
    await applyDelay()
    let socket: Socket
    try {
      socket = await dial.tcp(url.hostname.replace(/^\[|\]$/g, ''), Number(url.port || 80), authClient.shows)
    } catch (error) {
      return refuse(statusOf(error))
    }
    const out = request({
      createConnection: () => socket,
      method: from.method,
      path: `${url.pathname}${url.search}`,
      headers: forwardedHeaders(from.rawHeaders),
      setHost: false,
    })
    out.on('response', (answer) => {
      to.writeHead(answer.statusCode ?? 502, answer.statusMessage, forwardedHeaders(answer.rawHeaders))
      answer.pipe(to)
    })
    out.on('error', () => (to.headersSent ? to.destroy() : refuse(502)))
    to.once('close', () => socket.destroy())
    from.pipe(out)
  }

  const http = createHttpServer((from, to) => void forward(from, to))
  http.on('connect', (from: IncomingMessage, client: Socket, head: Buffer) => {
    const answer = (status: number, text: string, headerLines = ''): boolean =>
      client.write(`HTTP/1.1 ${status} ${text}\r\n${headerLines}\r\n`)
    client.on('error', () => undefined)
    const openTunnel = async (): Promise<void> => {
      const authClient = authenticateRequest(from)
      if (authClient === null) {
        answer(407, 'Proxy Authentication Required', 'Proxy-Authenticate: Basic\r\nContent-Length: 0\r\n')
        return void client.end()
      }
      const url = URL.parse(`http://${from.url ?? ''}`)
      await applyDelay()
      try {
        if (!url) throw new TargetForbidden('no target')
        const out = await dial.tcp(
          url.hostname.replace(/^\[|\]$/g, ''),
          Number(url.port || 80),
          authClient.shows,
        )
        answer(200, 'Connection Established')
        if (head.length > 0) out.write(head)
        tunnel(client, out)
      } catch (error) {
        answer(statusOf(error), 'SANDBOX', 'Content-Length: 0\r\n')
        client.end()
      }
    }
    void openTunnel()
  })

  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    socket.on('error', () => undefined)
    socket.once('readable', () => {
      const first = socket.read(1) as Buffer | null
      if (first === null) return socket.destroy()
      if (first[0] === 5)
        return void serveSocks(socket, { dial, signsIn, wait: applyDelay, tunnel }).catch(() =>
          socket.destroy(),
        )
      socket.unshift(first)
      http.emit('connection', socket)
    })
  })
  const listen = (port: number): Promise<void> =>
    new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host: '127.0.0.1', port }, () => {
        server.off('error', reject)
        resolve()
      })
    })
  await listen(0)
  const { port } = server.address() as { readonly port: number }
  const kill = async (): Promise<void> => {
    if (!server.listening) return
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const socket of sockets) socket.destroy()
    await closed
  }
  return {
    port,
    state: () => ({ alive: server.listening, slowMs }),
    kill,
    revive: async () => {
      if (!server.listening) await listen(port)
    },
    slow: (ms) => {
      slowMs = ms
    },
  }
}

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
