import { isIP } from 'node:net'
import { buildConnector } from 'undici'
import {
  allowedAddresses,
  isAllowedAddress,
  type Resolve,
  TargetRefused,
  type TargetRules,
} from './target.ts'

export type ConnectorOptions = {
  readonly resolve: Resolve
  readonly rules: TargetRules
  /** Of one connection: name, TCP and TLS. */
  readonly timeoutMs: number
  /** Trusted beside the system's authorities (PEM): for tests and the benchmark. */
  readonly ca?: string
}

/** Lets through only what the socket itself says is connected to an address that may be dialled. */
export const checkedConnector =
  (connect: buildConnector.connector, rules: TargetRules): buildConnector.connector =>
  (options, callback) =>
    connect(options, (error, socket) => {
      if (error) return callback(error, null)
      if (!isAllowedAddress(socket.remoteAddress ?? '', rules)) {
        socket.destroy()
        return callback(new TargetRefused('the connection leads to a private or reserved address'), null)
      }
      callback(null, socket)
    })

/**
 * Connects to public addresses only, looked at where they are dialled: a literal in the URL never reaches `lookup`, so
 * it is checked here; a name is resolved once, checked whole, and dialled at the addresses that were checked. What the
 * socket says it is connected to is looked at once more. For every request to an address that somebody else chose.
 */
export const guardedConnector = ({
  resolve,
  rules,
  timeoutMs,
  ca,
}: ConnectorOptions): buildConnector.connector => {
  const lookup = (
    hostname: string,
    _options: unknown,
    callback: (error: Error | null, addresses: { address: string; family: number }[]) => void,
  ): void => {
    allowedAddresses(hostname, resolve, rules).then(
      (addresses) =>
        callback(
          null,
          addresses.map((address) => ({ address, family: isIP(address) })),
        ),
      (error) => callback(error, []),
    )
  }
  const connect = buildConnector({
    allowH2: false,
    timeout: timeoutMs,
    ...(ca === undefined ? {} : { ca }),
    // Of the same form as node:dns.lookup with `all: true`, which net.connect always asks for.
    lookup: lookup as never,
    autoSelectFamily: true,
  } as buildConnector.BuildOptions)
  const checked = checkedConnector(connect, rules)
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, '')
    if (isIP(host) !== 0 && !isAllowedAddress(host, rules)) {
      callback(new TargetRefused('the URL points to a private or reserved address'), null)
      return
    }
    checked(options, callback)
  }
}
