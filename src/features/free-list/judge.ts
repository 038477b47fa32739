import { createHmac, createPrivateKey, createPublicKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import { createSecureContext, createServer as createTlsServer, type SecureContext } from 'node:tls'
import ipaddr from 'ipaddr.js'
import { type Anonymity, anonymities } from '../../domain/free-list/endpoint.ts'
import type { Clock } from '../../kernel/clock.ts'
import { equalSecrets } from '../../kernel/digest.ts'
import { selfSignedCertificate } from '../../platform/outgoing/self-signed-certificate.ts'
import { deriveKey, type MasterKey } from '../../platform/vault/keys.ts'

/**
 * Keys shared by the judge and its clients. All are derived from the master key: nothing is stored, and nothing
 * expires.
 */
export type JudgeKeys = {
  /** Signs nonces. The judge answers only requests with a valid nonce. */
  readonly nonces: KeyObject
  /** Signs answers, so that a proxy cannot forge or change one. */
  readonly answers: KeyObject
  /** The key pair of the judge's TLS. A server with another public key is not the judge. */
  readonly tls: { readonly privateKey: KeyObject; readonly publicKey: KeyObject }
  /** TLS context of the clients. It is shared, because creating one takes as long as a handshake. */
  readonly client: SecureContext
}

/** The prefix of an Ed25519 private key in PKCS #8; the seed follows it (RFC 8410). */
const pkcs8Head = Buffer.from('302e020100300506032b657004220420', 'hex')

export const judgeKeys = (master: MasterKey): JudgeKeys => {
  const seed = deriveKey(master, 'free proxy judge tls v1').export()
  const privateKey = createPrivateKey({
    key: Buffer.concat([pkcs8Head, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  return {
    nonces: deriveKey(master, 'free proxy judge nonces v1'),
    answers: deriveKey(master, 'free proxy judge answers v1'),
    tls: { privateKey, publicKey: createPublicKey(privateKey) },
    client: createSecureContext(),
  }
}

/** HMAC-SHA256 in base64url. */
export const signed = (key: KeyObject, text: string): string =>
  createHmac('sha256', key).update(text).digest('base64url')

/** A request as the judge received it. */
export type JudgeObservation = {
  /** Its source address. */
  readonly ip: string
  /** Header lines in their original order and spelling. */
  readonly headers: readonly (readonly [name: string, value: string])[]
}

/** The judge's whole body: a signature over the nonce and the rest, a line end, and the rest as JSON. */
export const answerText = (key: KeyObject, nonce: string, seen: JudgeObservation): string => {
  const json = JSON.stringify(seen)
  return `${signed(key, `${nonce}\n${json}`)}\n${json}`
}

/** The observation of the judge; null when the bytes are not its answer to this nonce. */
export const readAnswer = (key: KeyObject, nonce: string, body: Buffer): JudgeObservation | null => {
  const text = body.toString('utf8')
  const end = text.indexOf('\n')
  const json = text.slice(end + 1)
  const [expected, actual] = [
    Buffer.from(signed(key, `${nonce}\n${json}`)),
    Buffer.from(text.slice(0, Math.max(0, end))),
  ]
  if (!equalSecrets(expected, actual)) return null
  return JSON.parse(json) as JudgeObservation
}

/** Validity of a nonce before and after its time, milliseconds. Before, because clocks differ. */
const validMs = 120_000
const signatureLength = 22

const signatureOf = (key: KeyObject, head: string): string => signed(key, head).slice(0, signatureLength)

/**
 * A nonce for one request to the judge: its time, random text, and a signature over both, in base64url characters and
 * dots.
 * @param randomPart unpredictable base64url text
 */
export const makeNonce = (key: KeyObject, nowMs: number, randomPart: string): string => {
  const head = `${nowMs.toString(36)}.${randomPart}`
  return `${head}.${signatureOf(key, head)}`
}

/** Whether the nonce was made with this key and is still valid. */
export const isNonce = (key: KeyObject, nonce: string, nowMs: number): boolean => {
  const match = /^([0-9a-z]{6,10})\.[\w-]{8,32}\.([\w-]{22})$/.exec(nonce)
  if (match === null) return false
  const madeMs = Number.parseInt(match[1]!, 36)
  if (Math.abs(nowMs - madeMs) > validMs) return false
  const expected = signatureOf(key, nonce.slice(0, nonce.lastIndexOf('.')))
  return timingSafeEqual(Buffer.from(expected), Buffer.from(match[2]!))
}

export type JudgeServer = {
  readonly httpPort: number
  readonly tlsPort: number
  close(): Promise<void>
}

const headerBytes = 8_192
const maxWaitMs = 10_000
const connections = 20_000
/** Clients compare only the key of the certificate. */
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
 * The judge: a plain and a TLS listener. It answers a request with a nonce of this service with a signed copy of the
 * request as received. Other requests get an empty 404. Rejects when a port is in use. Port 0 selects a free port.
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
  const httpServer = createServer(
    { maxHeaderSize: headerBytes, headersTimeout: maxWaitMs, requestTimeout: maxWaitMs, noDelay: true },
    serve,
  )
  httpServer.maxConnections = connections
  const httpsServer = createTlsServer({
    key: keys.tls.privateKey.export({ type: 'pkcs8', format: 'pem' }),
    cert: selfSignedCertificate(keys.tls, ['judge'], { nowMs: clock(), days: certificateDays }),
    minVersion: 'TLSv1.2',
    handshakeTimeout: maxWaitMs,
    noDelay: true,
  })
  httpsServer.maxConnections = connections
  const sockets = new Set<Socket>()
  const keep = (socket: Socket): void => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    socket.on('error', () => undefined)
  }
  httpServer.on('connection', keep)
  httpsServer.on('connection', keep)
  httpsServer.on('secureConnection', (socket) => httpServer.emit('connection', socket))
  httpsServer.on('tlsClientError', () => undefined)
  const close = async (): Promise<void> => {
    await Promise.all(
      [httpServer, httpsServer].map(
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
      httpPort: await listening(httpServer, listen.host, listen.httpPort),
      tlsPort: await listening(httpsServer, listen.host, listen.tlsPort),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

export type HeaderLine = readonly [name: string, value: string]

/** A proxy may set these headers for its own connections. They reveal nothing about its client. */
const hopByHopHeaders: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'te'])

const canonical = (text: string): string => (ipaddr.isValid(text) ? ipaddr.process(text).toString() : text)

/** Every address in a header value, inside lists, brackets or quotes, with or without a port. */
const addressesIn = (value: string): readonly string[] =>
  value
    .split(/[^0-9a-fA-F:.]/)
    .flatMap((part) => [part, part.replace(/:\d{1,5}$/, '')])
    .filter((part) => ipaddr.isValid(part) && /[.:]/.test(part))
    .map(canonical)

/**
 * How much a target learns about the client from plain requests through this proxy. Transparent: the request came from
 * our address, or a header that we did not send contains it. Anonymous: something else of the request was added,
 * changed or removed, so that the target can detect the proxy. Elite: the request arrived as it was sent.
 * @param ownAddresses addresses of this service as the judge sees them without a proxy
 */
export const anonymityOf = (
  sent: readonly HeaderLine[],
  { ip, headers }: JudgeObservation,
  ownAddresses: ReadonlySet<string>,
): Anonymity => {
  if (ownAddresses.has(canonical(ip))) return 'transparent'
  const key = ([name, value]: HeaderLine): string => `${name.toLowerCase()}: ${value}`
  const [expected, receivedHeaders] = [sent, headers].map((lines) =>
    lines.filter(([name]) => !hopByHopHeaders.has(name.toLowerCase())).map(key),
  ) as [string[], string[]]
  const unexpected = headers.filter((line) => !expected.includes(key(line)))
  if (unexpected.some(([, value]) => addressesIn(value).some((address) => ownAddresses.has(address))))
    return 'transparent'
  return receivedHeaders.length === expected.length &&
    receivedHeaders.every((line) => expected.includes(line))
    ? 'elite'
    : 'anonymous'
}

/** The worst one; null for an empty list. */
export const worstOf = (all: readonly Anonymity[]): Anonymity | null =>
  anonymities.findLast((one) => all.includes(one)) ?? null
