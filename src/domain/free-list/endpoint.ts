/** The protocols of free proxies. `http` forwards plain requests, `https` opens tunnels by CONNECT to a TLS host. */
export const protocols = ['http', 'https', 'socks4', 'socks5'] as const
export type Protocol = (typeof protocols)[number]

/** The formats of feeds of proxies. */
export const feedFormats = ['text', 'json'] as const
export type FeedFormat = (typeof feedFormats)[number]

/** Ordered from most to least anonymous. */
export const anonymities = ['elite', 'anonymous', 'transparent'] as const
export type Anonymity = (typeof anonymities)[number]

/**
 * `untested` was never checked. `live` answered the last check, `not_answering` only earlier ones, `never_answered`
 * none.
 */
export const endpointStates = ['untested', 'live', 'not_answering', 'never_answered'] as const
export type EndpointState = (typeof endpointStates)[number]

/** Why a check found no working proxy. */
export const checkErrors = [
  'connect_timeout',
  'refused',
  'bad_response',
  'auth_required',
  'tls_error',
] as const
export type CheckError = (typeof checkErrors)[number]

/** The address and port of a candidate. `ip` is an address in its canonical form, never a name. */
export type SocketAddress = { readonly ip: string; readonly port: number }

/** The current state of one endpoint of the free list. */
export type Endpoint = SocketAddress & {
  readonly state: EndpointState
  /** The protocols that passed at the last answered check, in the order of `protocols`. */
  readonly protocols: readonly Protocol[]
  /** Null until it answered. */
  readonly anonymity: Anonymity | null
  /** The address that its requests come from; null until it answered. */
  readonly exitIp: string | null
  /** Whether it decrypted TLS at the last answered check; null if no check could detect that. */
  readonly interceptsTls: boolean | null
  /** The median of the last ten answered checks, whole milliseconds; null until it answered. */
  readonly latencyMs: number | null
  /** The time to connect at the last answered check, whole milliseconds. */
  readonly connectMs: number | null
  /** The answered percentage of the checks of the last 24 hours, with one decimal; null if there were none. */
  readonly uptime24h: number | null
  /** Since it was first seen. */
  readonly checks: number
  readonly successes: number
  /** Consecutive failures since the last answer. */
  readonly failures: number
  /** The error of the last check; null if it answered. */
  readonly error: CheckError | null
  /** ISO 8601 times; null if it has not happened. */
  readonly firstSeen: string
  readonly lastChecked: string | null
  readonly lastAnswered: string | null
  readonly nextCheck: string
}

const bitOf = (protocol: Protocol): number => 1 << protocols.indexOf(protocol)

/** Protocols as they are stored: one bit each, the lowest for the first of `protocols`. */
export const bitsOf = (passed: readonly Protocol[]): number =>
  passed.reduce((bits, protocol) => bits | bitOf(protocol), 0)

export const protocolsOf = (bits: number): readonly Protocol[] =>
  protocols.filter((protocol) => (bits & bitOf(protocol)) !== 0)

/** For example `203.0.113.7:8080` or `[2001:db8::1]:8080`. */
export const socketAddressText = ({ ip, port }: SocketAddress): string =>
  ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`
