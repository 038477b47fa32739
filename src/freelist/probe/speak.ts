import type { KeyObject } from 'node:crypto'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { readAnswer, type Seen } from '../judge/answer.ts'
import type { JudgeKeys } from '../judge/keys.ts'
import type { HeaderLine } from './anonymity.ts'
import { ProbeFailure } from './failure.ts'
import { bodyOf, headOf } from './http-answer.ts'
import type { CheckOptions } from './port.ts'
import { createWire, type Wire } from './wire.ts'

/** Where proxies are asked to go. */
export type JudgePlace = {
  /** What plain requests and CONNECT name: a host name or an address. */
  readonly host: string
  /** The IPv4 address that SOCKS is given. */
  readonly ip: string
  readonly httpPort: number
  readonly tlsPort: number
}

type Login = CheckOptions['login']

const hostText = (host: string): string => (host.includes(':') ? `[${host}]` : host)

/** What a browser says of itself: a proxy that only works for browsers works here as well. */
const browserLines: readonly HeaderLine[] = [
  ['User-Agent', 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0'],
  ['Accept', 'text/html,application/xhtml+xml,*/*;q=0.8'],
  ['Accept-Language', 'en-US,en;q=0.5'],
]

/** The header lines of a request to the judge. */
export const linesTo = ({ host }: JudgePlace, port: number, implied: number): readonly HeaderLine[] => [
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

/** Asks for the judge's answer over a way that leads to it. @throws ProbeFailure for an answer that is not the judge's */
const askJudge = async (
  wire: Wire,
  request: { readonly target: string; readonly lines: readonly HeaderLine[]; readonly nonce: string },
  key: KeyObject,
): Promise<Seen> => {
  wire.send(headText(`GET ${request.target} HTTP/1.1`, request.lines))
  const seen = readAnswer(key, request.nonce, await wire.take(bodyOf))
  if (seen === null) throw new ProbeFailure('bad_response', 'what came back is not what the judge said')
  return seen
}

/** A plain request: by the whole URL to a proxy, by the path over a tunnel. */
export const getPlain = (
  wire: Wire,
  judge: JudgePlace,
  {
    nonce,
    keys,
    proxied,
    login,
  }: { nonce: string; keys: JudgeKeys; proxied: boolean; login?: Login | undefined },
): Promise<Seen> => {
  const lines = linesTo(judge, judge.httpPort, 80)
  const target = proxied ? `http://${lines[0]![1]}/${nonce}` : `/${nonce}`
  return askJudge(wire, { target, lines: proxied ? [...lines, ...basic(login)] : lines, nonce }, keys.answers)
}

/** Opens a tunnel to the judge's TLS port by CONNECT. */
export const openByConnect = async (wire: Wire, judge: JudgePlace, login: Login): Promise<void> => {
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
  judge: JudgePlace,
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
  const [answered, code, , kind] = await wire.takeBytes(4)
  if (answered !== 5) throw new ProbeFailure('bad_response', 'the answer is not SOCKS5')
  if (code !== 0) throw new ProbeFailure('bad_response', `SOCKS5 refuses the tunnel with the code ${code}`)
  const rest = { 1: 4, 4: 16, 3: kind === 3 ? (await wire.takeBytes(1))[0]! : 0 }[kind!]
  if (rest === undefined) throw new ProbeFailure('bad_response', 'the answer is not SOCKS5')
  await wire.takeBytes(rest + 2)
}

/** SOCKS4: a user id in place of a login, and no names. */
export const openBySocks4 = async (
  wire: Wire,
  judge: JudgePlace,
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

/** The judge's TLS was not reached, since somebody else answered in its place. */
export class Intercepted extends ProbeFailure {
  constructor() {
    super('tls_error', 'the certificate is not the judge’s: TLS is broken open on the way')
  }
}

/** TLS over a tunnel, with the judge and nobody else. @throws Intercepted, ProbeFailure */
export const secured = (
  socket: Socket,
  judge: JudgePlace,
  { client, tls: { publicKey } }: JudgeKeys,
): Promise<{ readonly wire: Wire; readonly socket: TLSSocket }> =>
  new Promise((resolve, reject) => {
    const tls = connectTls({
      socket,
      secureContext: client,
      // Whoever it is must prove that the certificate is its own; whose it is, is looked at below.
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
      const shown = tls.getPeerX509Certificate()?.publicKey
      if (shown === undefined || !shown.equals(publicKey)) reject(new Intercepted())
      else resolve({ wire: createWire(tls), socket: tls })
    })
  })

/** A request over such TLS. */
export const getSecured = (wire: Wire, judge: JudgePlace, nonce: string, keys: JudgeKeys): Promise<Seen> =>
  askJudge(wire, { target: `/${nonce}`, lines: linesTo(judge, judge.tlsPort, 443), nonce }, keys.answers)
