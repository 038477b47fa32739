import type { KeyObject } from 'node:crypto'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { type HeaderLine, type JudgeKeys, type JudgeObservation, readAnswer } from './judge.ts'
import { type CheckOptions, ProbeFailure } from './probe-port.ts'

/** The most bytes of an answer that are read. An answer of the judge has some hundred bytes. */
export const maxResponseBytes = 16_384

const headEnd = '\r\n\r\n'

export type HttpHead = { readonly status: number; readonly head: string; readonly length: number }

/** The head of an HTTP/1 answer; null while it is incomplete. @throws ProbeFailure when it is not one */
export const headOf = (bytes: Buffer): HttpHead | null => {
  const text = bytes.toString('latin1')
  if (!'HTTP/1.'.startsWith(text.slice(0, 7)))
    throw new ProbeFailure('bad_response', 'the answer is not HTTP')
  const end = text.indexOf(headEnd)
  if (end === -1) return null
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?: |\r)/.exec(text)
  if (status === null) throw new ProbeFailure('bad_response', 'the answer is not HTTP')
  return { status: Number(status[1]), head: text.slice(0, end + 2), length: end + headEnd.length }
}

const fieldOf = (head: string, name: string): string | null => {
  for (const line of head.split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon !== -1 && line.slice(0, colon).trim().toLowerCase() === name)
      return line.slice(colon + 1).trim()
  }
  return null
}

/** The decoded chunks; null while they are incomplete. */
const dechunked = (bytes: Buffer): Buffer | null => {
  const parts: Buffer[] = []
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at)
    if (end === -1) return null
    const size = /^([0-9a-fA-F]{1,6})(?:;|$)/.exec(bytes.toString('latin1', at, end).trim())
    if (size === null) throw new ProbeFailure('bad_response', 'the chunks of the answer cannot be read')
    const length = Number.parseInt(size[1]!, 16)
    if (length === 0) return Buffer.concat(parts)
    if (bytes.length < end + 2 + length + 2) return null
    parts.push(bytes.subarray(end + 2, end + 2 + length))
    at = end + 2 + length + 2
  }
}

/**
 * The body of a complete answer with status 200; null while it is incomplete.
 * @param isEnded whether the other side has ended its stream
 * @throws ProbeFailure for another status, and for an invalid answer
 */
export const bodyOf = (bytes: Buffer, isEnded: boolean): Buffer | null => {
  const parsedHead = headOf(bytes)
  if (parsedHead === null) return null
  if (parsedHead.status === 407)
    throw new ProbeFailure('auth_required', 'the proxy wants a username and a password')
  if (parsedHead.status !== 200)
    throw new ProbeFailure('bad_response', `the answer has the status ${parsedHead.status} in place of 200`)
  const rest = bytes.subarray(parsedHead.length)
  if (fieldOf(parsedHead.head, 'transfer-encoding')?.toLowerCase() === 'chunked') return dechunked(rest)
  const length = fieldOf(parsedHead.head, 'content-length')
  if (length === null) return isEnded ? rest : null
  return rest.length >= Number(length) ? rest.subarray(0, Number(length)) : null
}

/** A connection with incremental reads. */
export type Wire = {
  readonly socket: Socket
  send(bytes: Buffer | string): void
  /**
   * Waits until `read` returns a value for the received bytes, returns it, and drops the bytes.
   * @throws ProbeFailure when the connection ends first or more than 16 KiB arrive, and errors of `read`
   */
  take<Value>(read: (bytes: Buffer, isEnded: boolean) => Value | null): Promise<Value>
  /** The same for an exact number of bytes. Further bytes remain. */
  takeBytes(count: number): Promise<Buffer>
  /** Detaches from the socket for another reader. @throws ProbeFailure when unread bytes arrived */
  release(): Socket
}

export const createWire = (socket: Socket): Wire => {
  let bytes: Buffer = Buffer.alloc(0)
  let isEnded = false
  let wake: (() => void) | null = null
  const onData = (chunk: Buffer): void => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
    wake?.()
  }
  const onEnd = (): void => {
    isEnded = true
    wake?.()
  }
  socket.on('data', onData)
  for (const event of ['end', 'close', 'error']) socket.on(event, onEnd)
  const take: Wire['take'] = async (read) => {
    for (;;) {
      const value = bytes.length > 0 ? read(bytes, isEnded) : null
      if (value !== null) {
        bytes = Buffer.alloc(0)
        return value
      }
      if (bytes.length > maxResponseBytes) throw new ProbeFailure('bad_response', 'the answer is too long')
      if (isEnded)
        throw new ProbeFailure('bad_response', 'it ended the connection before its answer was whole')
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return {
    socket,
    send: (data) => void socket.write(data),
    take,
    takeBytes: (count) =>
      take((all) => (all.length >= count ? all : null)).then((all) => {
        bytes = all.subarray(count)
        return all.subarray(0, count)
      }),
    release: () => {
      if (bytes.length > 0) throw new ProbeFailure('bad_response', 'it spoke out of turn')
      socket.off('data', onData)
      for (const event of ['end', 'close', 'error']) socket.off(event, onEnd)
      return socket
    },
  }
}

/** The target of requests through proxies. */
export type JudgeTarget = {
  /** The host name or address in plain requests and CONNECT. */
  readonly host: string
  /** The IPv4 address for SOCKS. */
  readonly ip: string
  readonly httpPort: number
  readonly tlsPort: number
}

type Login = CheckOptions['login']

const hostText = (host: string): string => (host.includes(':') ? `[${host}]` : host)

/** Headers of a browser, so that proxies that serve only browsers pass too. */
const browserLines: readonly HeaderLine[] = [
  ['User-Agent', 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0'],
  ['Accept', 'text/html,application/xhtml+xml,*/*;q=0.8'],
  ['Accept-Language', 'en-US,en;q=0.5'],
]

/** The header lines of a request to the judge. */
export const judgeRequestHeaders = (
  { host }: JudgeTarget,
  port: number,
  implied: number,
): readonly HeaderLine[] => [
  ['Host', port === implied ? hostText(host) : `${hostText(host)}:${port}`],
  ...browserLines,
  ['Connection', 'close'],
]

const headText = (start: string, lines: readonly HeaderLine[]): string =>
  `${start}\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`

const basic = (login: Login): readonly HeaderLine[] =>
  login === undefined
    ? []
    : [
        [
          'Proxy-Authorization',
          `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`,
        ],
      ]

/** Requests the judge's answer on an established connection. @throws ProbeFailure if the answer is not the judge's */
const askJudge = async (
  wire: Wire,
  request: { readonly target: string; readonly lines: readonly HeaderLine[]; readonly nonce: string },
  key: KeyObject,
): Promise<JudgeObservation> => {
  wire.send(headText(`GET ${request.target} HTTP/1.1`, request.lines))
  const seen = readAnswer(key, request.nonce, await wire.take(bodyOf))
  if (seen === null) throw new ProbeFailure('bad_response', 'what came back is not what the judge said')
  return seen
}

/** A plain request: with the whole URL to a proxy, with the path in a tunnel. */
export const getPlain = (
  wire: Wire,
  judge: JudgeTarget,
  {
    nonce,
    keys,
    proxied,
    login,
  }: { nonce: string; keys: JudgeKeys; proxied: boolean; login?: Login | undefined },
): Promise<JudgeObservation> => {
  const lines = judgeRequestHeaders(judge, judge.httpPort, 80)
  const target = proxied ? `http://${lines[0]![1]}/${nonce}` : `/${nonce}`
  return askJudge(wire, { target, lines: proxied ? [...lines, ...basic(login)] : lines, nonce }, keys.answers)
}

/** Opens a tunnel to the judge's TLS port with CONNECT. */
export const openByConnect = async (wire: Wire, judge: JudgeTarget, login: Login): Promise<void> => {
  const authority = `${hostText(judge.host)}:${judge.tlsPort}`
  wire.send(headText(`CONNECT ${authority} HTTP/1.1`, [['Host', authority], ...basic(login)]))
  const { status } = await wire.take(headOf)
  if (status === 407) throw new ProbeFailure('auth_required', 'the proxy wants a username and a password')
  if (status < 200 || status > 299)
    throw new ProbeFailure('bad_response', `CONNECT is answered with the status ${status}`)
}

const portBytes = (port: number): readonly number[] => [port >> 8, port & 255]
const ipBytes = (ip: string): readonly number[] => ip.split('.').map(Number)

/** RFC 1928 and 1929. */
export const openBySocks5 = async (
  wire: Wire,
  judge: JudgeTarget,
  port: number,
  login: Login,
): Promise<void> => {
  wire.send(login === undefined ? Buffer.of(5, 1, 0) : Buffer.of(5, 2, 0, 2))
  const [version, method] = await wire.takeBytes(2)
  if (version !== 5) throw new ProbeFailure('bad_response', 'the answer is not SOCKS5')
  if (method === 2 && login !== undefined) {
    const [user, pass] = [Buffer.from(login.username), Buffer.from(login.password)]
    wire.send(Buffer.concat([Buffer.of(1, user.length), user, Buffer.of(pass.length), pass]))
    const [, status] = await wire.takeBytes(2)
    if (status !== 0)
      throw new ProbeFailure('auth_required', 'the proxy refuses the username and the password')
  } else if (method !== 0)
    throw new ProbeFailure('auth_required', 'the proxy wants another way of signing in')
  wire.send(Buffer.of(5, 1, 0, 1, ...ipBytes(judge.ip), ...portBytes(port)))
  const [replyVersion, code, , kind] = await wire.takeBytes(4)
  if (replyVersion !== 5) throw new ProbeFailure('bad_response', 'the answer is not SOCKS5')
  if (code !== 0) throw new ProbeFailure('bad_response', `SOCKS5 refuses the tunnel with the code ${code}`)
  const rest = { 1: 4, 4: 16, 3: kind === 3 ? (await wire.takeBytes(1))[0]! : 0 }[kind!]
  if (rest === undefined) throw new ProbeFailure('bad_response', 'the answer is not SOCKS5')
  await wire.takeBytes(rest + 2)
}

/** SOCKS4: a user id instead of a login, and no host names. */
export const openBySocks4 = async (
  wire: Wire,
  judge: JudgeTarget,
  port: number,
  login: Login,
): Promise<void> => {
  const user = Buffer.from(login?.username ?? '')
  wire.send(Buffer.concat([Buffer.of(4, 1, ...portBytes(port), ...ipBytes(judge.ip)), user, Buffer.of(0)]))
  const [version, code] = await wire.takeBytes(8)
  if (version !== 0) throw new ProbeFailure('bad_response', 'the answer is not SOCKS4')
  if (code === 92 || code === 93) throw new ProbeFailure('auth_required', 'the proxy wants another user id')
  if (code !== 90) throw new ProbeFailure('bad_response', `SOCKS4 refuses the tunnel with the code ${code}`)
}

/** Another server answered the TLS connection to the judge. */
export class Intercepted extends ProbeFailure {
  constructor() {
    super('tls_error', 'the certificate is not the judge’s: TLS is broken open on the way')
  }
}

/** TLS with the judge in a tunnel. @throws Intercepted, ProbeFailure */
export const secured = (
  socket: Socket,
  judge: JudgeTarget,
  { client, tls: { publicKey } }: JudgeKeys,
): Promise<{ readonly wire: Wire; readonly socket: TLSSocket }> =>
  new Promise((resolve, reject) => {
    const tls = connectTls({
      socket,
      secureContext: client,
      // Any certificate is accepted here, and the server must prove that it has its key. The key is compared below.
      rejectUnauthorized: false,
      ...(isIP(judge.host) === 0 ? { servername: judge.host } : {}),
    })
    const fail = (): void => reject(new ProbeFailure('tls_error', 'TLS with the judge did not come about'))
    tls.once('error', fail)
    tls.once('close', fail)
    tls.once('secureConnect', () => {
      tls.off('error', fail)
      tls.off('close', fail)
      tls.on('error', () => undefined)
      const peerKey = tls.getPeerX509Certificate()?.publicKey
      if (peerKey === undefined || !peerKey.equals(publicKey)) reject(new Intercepted())
      else resolve({ wire: createWire(tls), socket: tls })
    })
  })

/** A request over this TLS. */
export const getSecured = (
  wire: Wire,
  judge: JudgeTarget,
  nonce: string,
  keys: JudgeKeys,
): Promise<JudgeObservation> =>
  askJudge(
    wire,
    { target: `/${nonce}`, lines: judgeRequestHeaders(judge, judge.tlsPort, 443), nonce },
    keys.answers,
  )
