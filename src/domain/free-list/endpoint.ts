/** What a free proxy is listed under: `http` forwards plain requests, `https` opens tunnels by CONNECT to a TLS host. */
export const protocols = ['http', 'https', 'socks4', 'socks5'] as const
export type Protocol = (typeof protocols)[number]

/** From the one that hides most to the one that hides nothing. */
export const anonymities = ['elite', 'anonymous', 'transparent'] as const
export type Anonymity = (typeof anonymities)[number]

/** `untested` was never checked; `live` answered the last check, `not_answering` an earlier one, `never_answered` none. */
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

/** Where a candidate listens. `ip` is an address in its canonical form, never a name. */
export type SocketAddress = { readonly ip: string; readonly port: number }

/** One endpoint of the record, as it stands. */
export type Endpoint = SocketAddress & {
  readonly state: EndpointState
  /** Those that passed the last check that it answered; in the order of `protocols`. */
  readonly protocols: readonly Protocol[]
  /** Null until it answered. */
  readonly anonymity: Anonymity | null
  /** Where its requests come out; null until it answered. */
  readonly exitIp: string | null
  /** Whether it broke TLS open at the last check that it answered; null while nothing could tell. */
  readonly interceptsTls: boolean | null
  /** The median of the last ten checks that it answered, whole milliseconds; null until it answered. */
  readonly latencyMs: number | null
  /** The time to connect at the last check that it answered, whole milliseconds. */
  readonly connectMs: number | null
  /** Percent of the checks of the last 24 hours that it answered, with one digit; null when there were none. */
  readonly uptime24h: number | null
  /** Since it is known. */
  readonly checks: number
  readonly successes: number
  /** In a row, since it last answered. */
  readonly failures: number
  /** Of the last check; null when it answered. */
  readonly error: CheckError | null
  /** Instants in ISO 8601; null until it happened. */
  readonly firstSeen: string
  readonly lastChecked: string | null
  readonly lastAnswered: string | null
  readonly nextDue: string
}

const bitOf = (protocol: Protocol): number => 1 << protocols.indexOf(protocol)

/** Protocols as they are stored: one bit each, the lowest for the first of `protocols`. */
export const bitsOf = (passed: readonly Protocol[]): number =>
  passed.reduce((bits, protocol) => bits | bitOf(protocol), 0)

export const protocolsOf = (bits: number): readonly Protocol[] =>
  protocols.filter((protocol) => (bits & bitOf(protocol)) !== 0)

/** `203.0.113.7:8080`, `[2001:db8::1]:8080`. */
export const socketAddressText = ({ ip, port }: SocketAddress): string =>
  ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`
