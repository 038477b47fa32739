import { generateKeyPairSync, randomBytes } from 'node:crypto'
import {
  createServer as createHttpServer,
  type IncomingMessage,
  request,
  type ServerResponse,
} from 'node:http'
import { createServer, isIPv4, type Server, type Socket } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import type { Protocol } from '../../domain/free-list/endpoint.ts'
import { every } from '../../kernel/every.ts'
import { selfSignedCertificate } from '../../platform/outgoing/self-signed-certificate.ts'
import { createExitDial, type ExitDial } from '../exit-dial.ts'
import { createChunkReader, forwardedHeaders, hostOf, nullTarget, reply, tunnel } from '../exit-proxy.ts'
import type { SandboxRecords } from '../sandbox-store.ts'
import { type PlannedProxy, tamperingFaults } from './plan.ts'

export type RunningProxy = { readonly planned: PlannedProxy; readonly port: number }

export type FreeProxies = {
  readonly running: readonly RunningProxy[]
  close(): Promise<void>
}

/** The ports of an earlier start, so that a stored endpoint remains the same proxy. */
type StoredPorts = { readonly ports: Readonly<Record<string, number>> }

const listen = (server: Server, host: string, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      server.off('error', reject)
      resolve((server.address() as { readonly port: number }).port)
    })
  })

/** Listens on the former port, or on a free port if the former one is in use. */
const listenAgain = (server: Server, host: string, previousPort: number | undefined): Promise<number> =>
  previousPort === undefined
    ? listen(server, host, 0)
    : listen(server, host, previousPort).catch(() => listen(server, host, 0))

/**
 * Starts the planned proxies, each on its own address in 127.80.0.0/12 and its own port. The ports stay the same after
 * a restart. The proxies make real connections. For targets on this machine the source is their exit address. On Linux
 * every process can use these addresses. On other systems the promise rejects.
 */
export const startFreeProxies = async (options: {
  readonly planned: readonly PlannedProxy[]
  readonly records: SandboxRecords
  readonly clock: () => number
}): Promise<FreeProxies> => {
  const { planned, records, clock } = options
  const behaviour = createBehaviour({ clock, nowMs: clock() })
  const storedPorts = (await records.get<StoredPorts>('free proxies', 'ports'))?.ports ?? {}
  const sockets = new Set<Socket>()
  const servers: Server[] = []
  const close = async (): Promise<void> => {
    await Promise.all(
      servers
        .map(
          (server) =>
            new Promise<void>((resolve) => {
              server.close(() => resolve())
            }),
        )
        .concat([...sockets].map(async (socket) => void socket.destroy())),
    )
  }
  const start = async (plannedProxy: PlannedProxy): Promise<RunningProxy> => {
    const dial = createExitDial({ own: plannedProxy.exitIp, allowLoopback: true, whoami: null })
    const served: ServedProxy = { planned: plannedProxy, dial, remembered: null }
    const server = createServer({ noDelay: true }, (socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
      behaviour.serve(served, socket)
    })
    const port = await listenAgain(server, plannedProxy.ip, storedPorts[plannedProxy.id])
    if (plannedProxy.fault === 'refused') await new Promise((resolve) => server.close(resolve))
    else servers.push(server)
    return { planned: plannedProxy, port }
  }
  try {
    const running = await Promise.all(planned.map(start))
    await records.change<StoredPorts>('free proxies', 'ports', () => ({
      ports: Object.fromEntries(running.map(({ planned: { id }, port }) => [id, port])),
    }))
    return { running, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** So long that no check gets a whole answer. */
const byteIntervalMs = 10_000

/** Sends a well-formed answer, one byte at once and one every ten seconds, until the client closes the connection. */
export const sendSlowly = (socket: Socket, firstByte: number | undefined): void => {
  const answer =
    firstByte === 5
      ? Buffer.from([5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
      : firstByte === 4
        ? Buffer.from([0, 90, 0, 0, 0, 0, 0, 0])
        : Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n')
  let at = 0
  const sendByte = (): void => {
    socket.write(answer.subarray(at, at + 1))
    at += 1
  }
  sendByte()
  const stop = every(byteIntervalMs, sendByte)
  socket.once('close', stop)
  socket.resume()
}

/** A proxy and the state that serves its connections. */
export type ServedProxy = {
  readonly planned: PlannedProxy
  readonly dial: Pick<ExitDial, 'tcp'>
  /** The stored answer of the judge, for the fault `replayer`. */
  remembered: string | null
}

const page = '<!doctype html><title>SANDBOX</title><p>A web server, and no proxy.\n'

/** A forged answer of the judge, with an invalid signature. */
const forgedAnswer = (exitIp: string): string =>
  `${randomBytes(32).toString('base64url')}\n${JSON.stringify({
    ip: exitIp,
    headers: [
      ['Host', 'judge'],
      ['Connection', 'close'],
    ],
  })}`

/** The answer of the judge without the header lines of proxies. */
const withoutProxyHeaders = (text: string): string => {
  const end = text.indexOf('\n')
  const echo = JSON.parse(text.slice(end + 1)) as { headers: [string, string][] }
  const headers = echo.headers.filter(([name]) => !/^(via|x-forwarded-for)$/i.test(name))
  return `${text.slice(0, end)}\n${JSON.stringify({ ...echo, headers: [...headers, ['Accept-Encoding', 'gzip']] })}`
}

const readAll = async (stream: AsyncIterable<Buffer>): Promise<string> => {
  const parts: Buffer[] = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts).toString()
}

/** The header lines that reveal a proxy of this anonymity level. */
const proxyHeaders = ({ anonymity }: PlannedProxy, client: string): readonly string[] => {
  if (anonymity === 'elite') return []
  const via = ['Via', '1.1 sandbox']
  return anonymity === 'anonymous' ? via : [...via, 'X-Forwarded-For', client]
}

const answerText = (response: ServerResponse, status: number, text: string, headers = {}): void =>
  void response
    .writeHead(status, { connection: 'close', 'content-length': String(Buffer.byteLength(text)), ...headers })
    .end(text)

/**
 * Serves connections of free proxies according to their plans. All proxies share one HTTP parser. The first byte of a
 * connection determines its protocol, as in real mixed proxies.
 */
export const createBehaviour = (parts: { readonly clock: () => number; readonly nowMs: number }) => {
  const { clock } = parts
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const secureContext = createSecureContext({
    key: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: selfSignedCertificate(keys, ['sandbox'], { nowMs: parts.nowMs, days: 30 }),
  })
  const owners = new WeakMap<object, ServedProxy>()

  const forward = async (served: ServedProxy, from: IncomingMessage, to: ServerResponse): Promise<void> => {
    const { planned, dial } = served
    const url = URL.parse(from.url ?? '') ?? URL.parse(from.url ?? '', `http://${from.headers.host ?? ''}`)
    if (url?.protocol !== 'http:') return answerText(to, 400, 'SANDBOX\n')
    if (planned.fault === 'forger') return answerText(to, 200, forgedAnswer(planned.exitIp))
    if (planned.fault === 'replayer' && served.remembered !== null)
      return answerText(to, 200, served.remembered)
    let socket: Socket
    try {
      socket = await dial.tcp(url.hostname.replace(/^\[|\]$/g, ''), Number(url.port || 80))
    } catch {
      return answerText(to, 502, 'SANDBOX\n')
    }
    to.once('close', () => socket.destroy())
    const out = request({
      createConnection: () => socket,
      method: from.method,
      path: `${url.pathname}${url.search}`,
      headers: [
        ...forwardedHeaders(from.rawHeaders),
        ...proxyHeaders(planned, from.socket.remoteAddress ?? ''),
      ],
      setHost: false,
    })
    out.on('error', () => (to.headersSent ? to.destroy() : answerText(to, 502, 'SANDBOX\n')))
    out.on('response', (answer) => {
      if (planned.fault !== 'tamperer' && planned.fault !== 'replayer') {
        to.writeHead(answer.statusCode ?? 502, forwardedHeaders(answer.rawHeaders))
        answer.pipe(to)
        return
      }
      void readAll(answer).then(
        (text) => {
          if (planned.fault === 'tamperer') return answerText(to, 200, withoutProxyHeaders(text))
          served.remembered = text
          // It has an answer to replay, so from now on it does not work as a proxy.
          to.destroy()
        },
        () => to.destroy(),
      )
    })
    from.pipe(out)
  }

  const http = createHttpServer((from, to) => {
    const served = owners.get(from.socket)
    if (!served) return void to.destroy()
    const { fault, protocols } = served.planned
    if (fault === 'web_server') return answerText(to, 200, page, { 'content-type': 'text/html' })
    // Requests from inside a terminated TLS tunnel are also answered. They have no absolute URL.
    const isProxied = (from.url ?? '').startsWith('http://')
    if (isProxied && !protocols.includes('http')) return void to.destroy()
    if (fault === 'locked') return answerText(to, 407, '', { 'proxy-authenticate': 'Basic realm="sandbox"' })
    void forward(served, from, to)
  })
  http.on('clientError', (_error, socket) => socket.destroy())

  /** Terminates the TLS of a tunnel and reads its content. */
  const intercept = (client: Socket, served: ServedProxy): void => {
    const tls = new TLSSocket(client, { isServer: true, secureContext })
    tls.on('error', () => client.destroy())
    owners.set(tls, served)
    http.emit('connection', tls)
  }

  /** Serves a tunnel. Proxies with an interception or tampering fault read its content. */
  const connectTarget = async (
    served: ServedProxy,
    client: Socket,
    host: string,
    port: number,
    opened: () => void,
  ): Promise<void> => {
    const { fault } = served.planned
    if (fault !== 'interceptor' && !tamperingFaults.has(fault)) {
      const out = await served.dial.tcp(host, port)
      opened()
      return tunnel(client, out)
    }
    opened()
    await new Promise((resolve) => client.once('readable', resolve))
    const first = client.read() as Buffer | null
    if (first === null) return void client.destroy()
    client.unshift(first)
    if (first[0] === 0x16) return intercept(client, served)
    if (tamperingFaults.has(fault)) {
      owners.set(client, served)
      http.emit('connection', client)
      return
    }
    tunnel(client, await served.dial.tcp(host, port))
  }

  http.on('connect', (from: IncomingMessage, client: Socket) => {
    const served = owners.get(from.socket)
    const end = (status: number): void =>
      void client.end(`HTTP/1.1 ${status} SANDBOX\r\nContent-Length: 0\r\n\r\n`)
    if (!served?.planned.protocols.includes('https') || served.planned.fault === 'web_server') return end(405)
    if (served.planned.fault === 'locked') return end(407)
    const url = URL.parse(`http://${from.url ?? ''}`)
    if (url === null) return end(400)
    const opened = (): boolean => client.write('HTTP/1.1 200 Connection established\r\n\r\n')
    connectTarget(served, client, url.hostname.replace(/^\[|\]$/g, ''), Number(url.port || 80), opened).catch(
      () => client.destroy(),
    )
  })

  const socks5 = async (served: ServedProxy, socket: Socket): Promise<void> => {
    const { take: readBytes } = createChunkReader(socket)
    const byte = async (): Promise<number> => (await readBytes(1))[0] ?? 0
    const methods = await readBytes(await byte())
    if (served.planned.fault === 'locked' || !methods.includes(0)) return void socket.end(Buffer.of(5, 255))
    socket.write(Buffer.of(5, 0))
    const [, command, , kind = 0] = await readBytes(4)
    const host = await hostOf(kind, readBytes)
    const port = (await readBytes(2)).readUInt16BE()
    if (command !== 1) return void socket.end(reply(7, nullTarget))
    await connectTarget(served, socket, host, port, () => void socket.write(reply(0, nullTarget)))
  }

  const socks4 = async (served: ServedProxy, socket: Socket): Promise<void> => {
    const { take: readBytes } = createChunkReader(socket)
    const command = (await readBytes(1))[0]
    const port = (await readBytes(2)).readUInt16BE()
    const host = [...(await readBytes(4))].join('.')
    while ((await readBytes(1))[0] !== 0); // the user id
    const answer = (code: number): Buffer => Buffer.of(0, code, 0, 0, 0, 0, 0, 0)
    if (served.planned.fault === 'locked') return void socket.end(answer(93))
    if (command !== 1 || !isIPv4(host)) return void socket.end(answer(91))
    await connectTarget(served, socket, host, port, () => void socket.write(answer(90)))
  }

  const isOffline = ({ fault, periodMs }: PlannedProxy): boolean =>
    fault === 'flapping' && Math.floor(clock() / periodMs) % 2 === 1

  const serve = (served: ServedProxy, socket: Socket): void => {
    const { planned } = served
    socket.on('error', () => undefined)
    if (planned.fault === 'tar_pit') return
    socket.once('readable', () => {
      const first = socket.read(1) as Buffer | null
      if (first === null) return void socket.destroy()
      if (planned.fault === 'reset' || isOffline(planned)) return void socket.resetAndDestroy()
      if (planned.fault === 'drip') return sendSlowly(socket, first[0])
      const supports = (protocol: Protocol): boolean =>
        planned.fault !== 'web_server' && planned.protocols.includes(protocol)
      const dropSocket = (): void => void socket.destroy()
      if (first[0] === 5)
        return void (supports('socks5') ? socks5(served, socket).catch(dropSocket) : dropSocket())
      if (first[0] === 4)
        return void (supports('socks4') ? socks4(served, socket).catch(dropSocket) : dropSocket())
      if (
        !planned.protocols.some((protocol) => protocol === 'http' || protocol === 'https') &&
        planned.fault !== 'web_server'
      )
        return dropSocket()
      socket.unshift(first)
      owners.set(socket, served)
      http.emit('connection', socket)
    })
  }
  return { serve }
}
