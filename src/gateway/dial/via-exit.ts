import { isIP } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { interleaveFamilies, RaceCanceled, RaceTimeout, raceTo } from '../../platform/outgoing/race.ts'
import { withoutRootDot } from '../../platform/outgoing/target.ts'
import { type BufferedSocket, dialBufferedSocket, noopHandler, raceToSocket } from '../buffered-socket.ts'
import type { GatewayContext } from '../client.ts'
import type { Denied, Exit } from '../gateway-ports.ts'
import { lenientHeads } from '../http/message-head.ts'
import { refuse, targetBlocked, targetRefused, targetTimeout, targetUnreachable } from '../refusals.ts'
import { encodeTarget, socksReplies, targetLength, version } from '../socks/socks-messages.ts'
import { hostText, type Target } from '../targets.ts'

/** A connection to the target through an exit. */
export type Connected = { readonly denied: false; readonly wire: BufferedSocket }

/** No connection. `fault` is its cause; only `exit` counts against the exit. */
type NotConnected = { readonly denied: true; readonly fault: 'exit' | 'target'; readonly why: Denied }

export type Dialled = Connected | NotConnected

export const targetFailure = (why: Denied): NotConnected => ({ denied: true, fault: 'target', why })

export const exitFailure = (detail: string): NotConnected => ({
  denied: true,
  fault: 'exit',
  why: refuse(502, 'exit_failed', detail),
})

/** An exit that is an external proxy. */
export type Endpoint = Extract<Exit['via'], { kind: 'http' | 'https' | 'socks5' }>

type Context = Pick<GatewayContext, 'resolve' | 'exitAuthorities' | 'onFault'>
type Limits = { readonly timeoutMs: number; readonly signal: AbortSignal }

/** Connects to the exit itself. @throws errors of the socket and of DNS, and RaceTimeout */
export const openEndpoint = async (
  context: Context,
  endpoint: Endpoint,
  limits: Limits,
): Promise<BufferedSocket> => {
  const { host, port, kind } = endpoint
  const addresses = interleaveFamilies(isIP(host) === 0 ? await context.resolve(host) : [host])
  if (kind === 'https') return overTls(endpoint, addresses, context, limits)
  return raceToSocket({
    addresses,
    port,
    localAddress: null,
    onFault: context.onFault,
    ...limits,
  })
}

/** Connects over TLS. The certificate is checked for the exit's name, whichever of its addresses answers. */
const overTls = (
  { host, port }: Endpoint,
  addresses: readonly string[],
  { exitAuthorities, onFault }: Context,
  limits: Limits,
): Promise<BufferedSocket> =>
  raceTo({
    ...limits,
    addresses,
    event: 'secureConnect',
    dial: (address) =>
      dialBufferedSocket(
        (onread) =>
          connectTls({
            host: address,
            port,
            allowHalfOpen: true,
            noDelay: true,
            ...(isIP(host) === 0 ? { servername: withoutRootDot(host) } : {}),
            onread,
            ...(exitAuthorities === null ? {} : { ca: exitAuthorities }),
            // The types lack `allowHalfOpen`.
          } as ConnectionOptions),
        onFault,
      ),
  })

const maxHead = 16_384

const credentials = ({ username, password }: Endpoint): string =>
  username === null
    ? ''
    : `Proxy-Authorization: Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}\r\n`

/** Maps the status of an exit's answer to CONNECT. */
const refusal = (status: number): Dialled => {
  if (status === 407 || status === 401) return exitFailure('The exit did not accept its own credentials.')
  if (status === 403 || status === 464)
    return targetFailure(targetBlocked('The exit does not let this target through.'))
  if (status === 504 || status === 408) return targetFailure(targetTimeout)
  return targetFailure(targetUnreachable)
}

/** A tunnel through an HTTP proxy; the proxy resolves names. @throws what `createHandshakeReader` throws */
export const tunnelByHttp = async (
  wire: BufferedSocket,
  endpoint: Endpoint,
  target: Target,
  limits: Limits,
): Promise<Dialled> => {
  const handshake = createHandshakeReader(wire, limits.timeoutMs, limits.signal)
  try {
    const to = `${hostText(target)}:${target.port}`
    wire.socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n${credentials(endpoint)}\r\n`)
    const readStatus = async (): Promise<number> => {
      const head = (await handshake.head(maxHead)).toString('latin1')
      return Number(/^HTTP\/1\.\d[ \t]+(\d{3})/i.exec(head)?.[1] ?? Number.NaN)
    }
    let status = await readStatus()
    // Interim responses may precede the final one (RFC 9110 section 15.2).
    while (status >= 100 && status < 200) status = await readStatus()
    if (status >= 200 && status < 300) {
      handshake.done()
      return { denied: false, wire }
    }
    handshake.fail()
    return Number.isNaN(status) ? exitFailure('The exit does not answer like a proxy.') : refusal(status)
  } catch (error) {
    handshake.fail()
    throw error
  }
}

const noAuthentication = 0
const passwordMethod = 2

/** Maps the reply of a SOCKS5 exit. Many send "general failure" for a target that does not answer. */
const socksRefusal = (reply: number): NotConnected => {
  switch (reply) {
    case socksReplies.notAllowed:
      return targetFailure(targetBlocked('The exit does not let this target through.'))
    case socksReplies.refused:
      return targetFailure(targetRefused)
    case socksReplies.ttlExpired:
      return targetFailure(targetTimeout)
    default:
      return targetFailure(targetUnreachable)
  }
}

/** Greeting and RFC 1929 authentication. @returns null when the exit accepts the login */
const logIn = async (
  wire: BufferedSocket,
  handshake: HandshakeReader,
  { username, password }: Endpoint,
): Promise<NotConnected | null> => {
  const method = username === null ? noAuthentication : passwordMethod
  wire.socket.write(Buffer.of(version, 1, method))
  const chosen = await handshake.exactly(2)
  if (chosen[0] !== version) return exitFailure('The exit does not answer like a SOCKS5 proxy.')
  if (chosen[1] !== method) return exitFailure('The exit does not accept how it is logged in to.')
  if (username === null) return null
  const name = Buffer.from(username)
  const passwordBytes = Buffer.from(password ?? '')
  if (name.length > 255 || passwordBytes.length > 255)
    return exitFailure('The credentials of the exit are too long for SOCKS5.')
  wire.socket.write(
    Buffer.concat([Buffer.of(1, name.length), name, Buffer.of(passwordBytes.length), passwordBytes]),
  )
  return (await handshake.exactly(2))[1] === 0
    ? null
    : exitFailure('The exit did not accept its own credentials.')
}

/** The result of a command. `bound` is the address in the answer, which is that of the UDP relay for `associate`. */
type SocksAnswer = NotConnected | { readonly denied: false; readonly bound: Buffer }

/** Logs in to a SOCKS5 proxy and sends it one command. @throws what `createHandshakeReader` throws */
export const commandBySocks = async (
  wire: BufferedSocket,
  endpoint: Endpoint,
  command: 'connect' | 'associate',
  target: Target,
  limits: Limits,
): Promise<SocksAnswer> => {
  const handshake = createHandshakeReader(wire, limits.timeoutMs, limits.signal)
  const failed = (why: NotConnected): NotConnected => {
    handshake.fail()
    return why
  }
  try {
    const refused = await logIn(wire, handshake, endpoint)
    if (refused) return failed(refused)
    wire.socket.write(
      Buffer.concat([Buffer.of(version, command === 'connect' ? 1 : 3, 0), encodeTarget(target)]),
    )
    const reply = await handshake.exactly(5)
    const length = targetLength(reply[3]!, reply[4]!)
    if (reply[0] !== version || length === null)
      return failed(exitFailure('The exit does not answer like a SOCKS5 proxy.'))
    if (reply[1] !== socksReplies.succeeded) return failed(socksRefusal(reply[1]!))
    const rest = await handshake.exactly(length - 2)
    handshake.done()
    return { denied: false, bound: Buffer.concat([reply.subarray(3), rest]) }
  } catch (error) {
    handshake.fail()
    throw error
  }
}

/** A connection through a SOCKS5 proxy; the proxy resolves names. */
export const tunnelBySocks = async (
  wire: BufferedSocket,
  endpoint: Endpoint,
  target: Target,
  limits: Limits,
): Promise<Dialled> => {
  const answer = await commandBySocks(wire, endpoint, 'connect', target, limits)
  return answer.denied ? answer : { denied: false, wire }
}

/** Reads the answers of an exit during a handshake. */
type HandshakeReader = {
  /** The next `bytes` bytes. */
  exactly(bytes: number): Promise<Buffer>
  /** The bytes up to and including the next empty line. */
  head(maxBytes: number): Promise<Buffer>
  /** Ends the handshake. Bytes after the answers are buffered for the next handler. */
  done(): void
  /** Closes the connection. */
  fail(): void
}

type PendingRead = {
  readonly wantedLength: () => number | null
  readonly resolve: (bytes: Buffer) => void
  readonly reject: (error: Error) => void
}

/** @throws RaceTimeout, RaceCanceled, and socket errors, from its methods */
const createHandshakeReader = (
  wire: BufferedSocket,
  timeoutMs: number,
  signal: AbortSignal,
): HandshakeReader => {
  let bytes: Buffer = Buffer.alloc(0)
  let pendingRead: PendingRead | null = null
  let fault: Error | null = null

  const failed = (error: Error): void => {
    fault ??= error
    pendingRead?.reject(fault)
    pendingRead = null
  }
  const resolvePendingRead = (): void => {
    if (pendingRead === null) return
    try {
      const length = pendingRead.wantedLength()
      if (length === null) return
      const { resolve } = pendingRead
      pendingRead = null
      const consumed = bytes.subarray(0, length)
      bytes = bytes.subarray(length)
      resolve(consumed)
    } catch (error) {
      failed(error as Error)
    }
  }
  const failAndDestroy = (error: Error): void => {
    failed(error)
    wire.socket.destroy()
  }
  const timer = setTimeout(
    () => failAndDestroy(new RaceTimeout('the exit did not answer in time')),
    timeoutMs,
  )
  const canceled = (): void => failAndDestroy(new RaceCanceled('the client is gone'))
  if (signal.aborted) canceled()
  signal.addEventListener('abort', canceled, { once: true })
  const settle = (): void => {
    clearTimeout(timer)
    signal.removeEventListener('abort', canceled)
  }
  wire.use({
    ...noopHandler,
    bytes: (chunk) => {
      bytes = Buffer.concat([bytes, chunk])
      resolvePendingRead()
      return true
    },
    end: () => failed(new Error('the exit ended the connection')),
    closed: (error) => failed(error ?? new Error('the exit ended the connection')),
  })
  const readWhen = (wantedLength: () => number | null): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      pendingRead = { wantedLength, resolve, reject }
      if (fault === null) resolvePendingRead()
      else failed(fault)
    })
  return {
    exactly: (length) => readWhen(() => (bytes.length >= length ? length : null)),
    head: (maxBytes) =>
      readWhen(() => {
        const end = lenientHeads.endOf(bytes, 0)
        if (end === -1 && bytes.length > maxBytes) throw new Error('the answer of the exit is too long')
        return end === -1 ? null : end
      }),
    done: () => {
      settle()
      wire.detach()
      wire.unshift(bytes)
    },
    fail: () => {
      settle()
      wire.socket.destroy()
    },
  }
}
