import { lookup } from 'node:dns/promises'
import { connect, isIP, type Socket } from 'node:net'
import { buildConnector, errors } from 'undici'
import { interleaveFamilies, RaceTimeout, raceTo } from './race.ts'
import {
  allowedAddresses,
  isAllowedAddress,
  type Resolve,
  TargetRefused,
  type TargetRules,
  withoutRootDot,
} from './target.ts'

type ConnectorOptions = {
  /** Returns the addresses of a host name. All of them are tried. */
  readonly resolve: Resolve
  /** Milliseconds for the name and TCP together, and again for TLS. */
  readonly timeoutMs: number
  /** A certificate authority (PEM) that is trusted in addition to the system's, for tests and the benchmark. */
  readonly ca?: string
}

/** Rejects a connection if the socket reports a remote address that is not allowed. */
export const checkedConnector =
  (connector: buildConnector.connector, rules: TargetRules): buildConnector.connector =>
  (options, callback) =>
    connector(options, (error, socket) => {
      if (error) return callback(error, null)
      if (!isAllowedAddress(socket.remoteAddress ?? '', rules)) {
        socket.destroy()
        return callback(new TargetRefused('the connection leads to a private or reserved address'), null)
      }
      callback(null, socket)
    })

/** Connects over TCP to an address of the name, as in RFC 8305. undici's own connector aborts slow attempts. */
const createDial =
  ({ resolve, timeoutMs }: ConnectorOptions) =>
  async ({ hostname, protocol, port }: buildConnector.Options) => {
    const startedMs = performance.now()
    const host = hostname.replace(/^\[|\]$/g, '')
    const addresses = isIP(host) === 0 ? await resolve(host) : [host]
    try {
      const { socket } = await raceTo({
        addresses: interleaveFamilies(addresses),
        timeoutMs: Math.max(1, timeoutMs - (performance.now() - startedMs)),
        dial: (address) => ({
          socket: connect({
            host: address,
            port: Number(port) || (protocol === 'https:' ? 443 : 80),
            noDelay: true,
            keepAlive: true,
            keepAliveInitialDelay: 60_000,
            autoSelectFamily: false,
          }),
        }),
      })
      // The socket may fail before the caller adds a listener.
      socket.on('error', () => undefined)
      return { socket, host }
    } catch (error) {
      if (error instanceof RaceTimeout) throw new errors.ConnectTimeoutError(error.message)
      throw error
    }
  }

const connectorOf = (options: ConnectorOptions): buildConnector.connector => {
  const dial = createDial(options)
  const { ca } = options
  const ready = (callback: buildConnector.Callback): buildConnector.Callback =>
    ((error: Error | null, socket) => {
      if (error) return callback(error, null)
      ignoreContinue(socket)
      callback(null, socket)
    }) as buildConnector.Callback
  const overTls = buildConnector({
    allowH2: false,
    timeout: options.timeoutMs,
    ...(ca === undefined ? {} : { ca }),
  })
  return (connectOptions, callback) => {
    const done = ready(callback)
    dial(connectOptions).then(
      ({ socket, host }) => {
        if (connectOptions.protocol !== 'https:') return done(null, socket)
        overTls(
          {
            ...connectOptions,
            ...(isIP(host) === 0 ? { servername: withoutRootDot(connectOptions.servername ?? host) } : {}),
            httpSocket: socket,
          },
          done,
        )
      },
      (error) => done(error, null),
    )
  }
}

/**
 * Connects to public addresses only, checked where the connection is opened. A literal in the URL never reaches
 * `resolve`, so it is checked here. A name is resolved once, all of its addresses are checked, and only these are
 * dialled. The socket's remote address is checked again. For every request to an address that a customer or a
 * reseller chose.
 */
export const guardedConnector = ({
  rules,
  resolve,
  ...options
}: ConnectorOptions & { readonly rules: TargetRules }): buildConnector.connector => {
  const checked = checkedConnector(
    connectorOf({ ...options, resolve: (name) => allowedAddresses(name, resolve, rules) }),
    rules,
  )
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, '')
    if (isIP(host) !== 0 && !isAllowedAddress(host, rules)) {
      callback(new TargetRefused('the URL points to a private or reserved address'), null)
      return
    }
    checked(options, callback)
  }
}

/** Connects to any address that the system resolves the name to, including private networks. */
export const systemConnector = (timeoutMs: number): buildConnector.connector =>
  connectorOf({
    timeoutMs,
    resolve: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
  })

const newline = 0x0a
const carriageReturn = 0x0d

/** The length of a status line up to the end of its status code. */
const statusEnd = 'HTTP/1.1 100'.length

/**
 * The parser's state on a connection: in a status line, with its text so far; in the header lines of an interim
 * response, with the number of bytes of the current line (0 or 1: not empty); or in the rest, until the next request.
 */
type ParseState =
  | { readonly in: 'status'; readonly line: string }
  | { readonly in: 'headers'; readonly bytes: number }
  | { readonly in: 'response' }

const statusLine = { in: 'status', line: '' } as ParseState

const stateAfterStatus = (line: string): ParseState =>
  /^HTTP\/1\.\d 1(?!01)\d\d$/.test(line) ? { in: 'headers', bytes: 1 } : { in: 'response' }

/** The state after these bytes. Every 100 in them is changed to 102. */
const renameContinues = (start: ParseState, bytes: Buffer): ParseState => {
  let parseState = start
  for (let at = 0; at < bytes.length && parseState.in !== 'response'; at++) {
    const byte = bytes[at] as number
    const isEnd = byte === newline || byte === carriageReturn
    if (parseState.in === 'status') {
      if (parseState.line === '' && isEnd) continue
      const line: string = parseState.line + String.fromCharCode(byte)
      if (/^HTTP\/1\.\d 100$/.test(line)) bytes[at] = 0x32
      parseState = line.length < statusEnd ? { in: 'status', line } : stateAfterStatus(line)
    } else if (byte === newline)
      parseState = parseState.bytes === 0 ? statusLine : { in: 'headers', bytes: 0 }
    else if (byte !== carriageReturn) parseState = { in: 'headers', bytes: 1 }
  }
  return parseState
}

/**
 * A client must accept interim responses that it did not request (RFC 9110, 15.2). undici ignores all of them but
 * 100, which ends its connection. So a 100 is changed to 102 before undici reads it. The connection has one request
 * at a time: the first bytes after a write are a status line.
 */
export const ignoreContinue = (socket: Socket): void => {
  let parseState = statusLine
  const read = socket.read.bind(socket)
  const write = socket.write.bind(socket) as (...values: unknown[]) => boolean
  socket.write = ((...values: unknown[]) => {
    if (parseState.in === 'response') parseState = statusLine
    return write(...values)
  }) as Socket['write']
  socket.read = (size?: number) => {
    const bytes: Buffer | null = read(size)
    if (bytes !== null && parseState.in !== 'response') parseState = renameContinues(parseState, bytes)
    return bytes
  }
}
