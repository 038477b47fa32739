import { lookup } from 'node:dns/promises'
import { connect, isIP } from 'node:net'
import { buildConnector, errors } from 'undici'
import { ignoreContinue } from './interim-responses.ts'
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
