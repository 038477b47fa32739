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
  /** The addresses of a host name, all of which are tried. */
  readonly resolve: Resolve
  /** Of the name and TCP together, and of TLS. */
  readonly timeoutMs: number
  /** Trusted beside the system's authorities (PEM): for tests and the benchmark. */
  readonly ca?: string
}

/** Lets through only what the socket itself says is connected to an address that may be dialled. */
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

/** Connects over TCP to an address of the name, in the order of RFC 8305. undici's own connector ends slow attempts. */
const dialling =
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
      // It may fail before somebody else listens to it.
      socket.on('error', () => undefined)
      return { socket, host }
    } catch (error) {
      if (error instanceof RaceTimeout) throw new errors.ConnectTimeoutError(error.message)
      throw error
    }
  }

/** A connector that tries all addresses of a name. */
const connectorOf = (options: ConnectorOptions): buildConnector.connector => {
  const dial = dialling(options)
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
  return (asked, callback) => {
    const done = ready(callback)
    dial(asked).then(
      ({ socket, host }) => {
        if (asked.protocol !== 'https:') return done(null, socket)
        overTls(
          {
            ...asked,
            ...(isIP(host) === 0 ? { servername: withoutRootDot(asked.servername ?? host) } : {}),
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
 * Connects to public addresses only, looked at where they are dialled: a literal in the URL never reaches `resolve`, so
 * it is checked here; a name is resolved once, checked whole, and dialled at the addresses that were checked. What the
 * socket says it is connected to is looked at once more. For every request to an address that somebody else chose.
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

/** Connects to whatever the system resolves a name to, in a private network too. */
export const systemConnector = (timeoutMs: number): buildConnector.connector =>
  connectorOf({
    timeoutMs,
    resolve: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
  })
