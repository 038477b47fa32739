import {
  createServer as createHttpServer,
  type IncomingMessage,
  request,
  type ServerResponse,
} from 'node:http'
import { createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createExitDial, TargetForbidden } from './exit-dial.ts'
import { serveSocks } from './exit-socks.ts'
import type { Whoami } from './probe-target.ts'

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
