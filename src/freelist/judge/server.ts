import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import ipaddr from 'ipaddr.js'
import type { Clock } from '../../kernel/clock.ts'
import { selfSignedCertificate } from '../../kernel/self-signed.ts'
import { answerText } from './answer.ts'
import type { JudgeKeys } from './keys.ts'
import { isNonce } from './nonce.ts'

export type JudgeServer = {
  readonly httpPort: number
  readonly tlsPort: number
  close(): Promise<void>
}

const headerBytes = 8_192
const patienceMs = 10_000
const connections = 20_000
/** Nobody compares anything but its key. */
const certificateDays = 3_650

const pairs = (raw: readonly string[]): (readonly [string, string])[] =>
  Array.from({ length: raw.length / 2 }, (_, at) => [raw[2 * at]!, raw[2 * at + 1]!] as const)

const listening = (server: Server, host: string, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, backlog: 4_096 }, () => {
      server.off('error', reject)
      resolve((server.address() as AddressInfo).port)
    })
  })

/**
 * The judge: a plain and a TLS listener that tell whoever brings a nonce of this service what its request looked like on
 * arrival, signed. Everybody else gets an empty 404.
 * Rejects when a port cannot be had; 0 takes a free one.
 */
export const startJudge = async (options: {
  readonly keys: JudgeKeys
  readonly listen: { readonly host: string; readonly httpPort: number; readonly tlsPort: number }
  readonly clock: Clock
}): Promise<JudgeServer> => {
  const { keys, listen, clock } = options
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    const { url = '', socket } = request
    const nonce = url.slice(url.lastIndexOf('/') + 1)
    response.setHeader('connection', 'close')
    if (request.method !== 'GET' || !isNonce(keys.nonces, nonce, clock())) {
      response.writeHead(404, { 'content-length': '0' }).end()
      return
    }
    const { remoteAddress = '' } = socket
    const ip = ipaddr.isValid(remoteAddress) ? ipaddr.process(remoteAddress).toString() : remoteAddress
    const body = answerText(keys.answers, nonce, { ip, headers: pairs(request.rawHeaders) })
    response
      .writeHead(200, {
        'content-type': 'text/plain; charset=utf-8',
        'content-length': String(Buffer.byteLength(body)),
        'cache-control': 'no-store',
      })
      .end(body)
  }
  const plain = createServer(
    { maxHeaderSize: headerBytes, headersTimeout: patienceMs, requestTimeout: patienceMs, noDelay: true },
    serve,
  )
  plain.maxConnections = connections
  const secure = createTlsServer({
    key: keys.tls.privateKey.export({ type: 'pkcs8', format: 'pem' }),
    cert: selfSignedCertificate(keys.tls, ['judge'], { nowMs: clock(), days: certificateDays }),
    minVersion: 'TLSv1.2',
    handshakeTimeout: patienceMs,
    noDelay: true,
  })
  secure.maxConnections = connections
  const sockets = new Set<Socket>()
  const keep = (socket: Socket): void => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    socket.on('error', () => undefined)
  }
  plain.on('connection', keep)
  secure.on('connection', keep)
  secure.on('secureConnection', (socket) => plain.emit('connection', socket))
  secure.on('tlsClientError', () => undefined)
  const close = async (): Promise<void> => {
    await Promise.all(
      [plain, secure].map(
        (server) =>
          new Promise<void>((resolve) => {
            server.close(() => resolve())
            for (const socket of sockets) socket.destroy()
          }),
      ),
    )
  }
  try {
    return {
      httpPort: await listening(plain, listen.host, listen.httpPort),
      tlsPort: await listening(secure, listen.host, listen.tlsPort),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
