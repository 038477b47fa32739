import type { Anonymity, CheckError, Protocol } from '../../domain/free-list/endpoint.ts'

/** The faults of a sandbox proxy. `none` works correctly. */
export const faults = [
  'none',
  /** The port is closed. */
  'refused',
  /** Accepts connections and never answers. */
  'tar_pit',
  /** Resets every connection. */
  'reset',
  /** Sends an answer byte by byte without an end. */
  'drip',
  /** Answers with a forged answer of the judge. */
  'forger',
  /** Answers with the judge's answer to an earlier request. */
  'replayer',
  /** Removes from the judge's answer the headers that reveal a proxy. */
  'tamperer',
  /** Terminates TLS with its own certificate. */
  'interceptor',
  /** Requires a username and a password. */
  'locked',
  /** A web server: it answers every request with the same page. */
  'web_server',
  /** Alternates between one period of working and one period of resetting connections. */
  'flapping',
] as const
export type Fault = (typeof faults)[number]

/** The expected result of a check. */
export type ExpectedCheck = {
  readonly alive: boolean
  readonly protocols: readonly Protocol[]
  readonly anonymity: Anonymity | null
  readonly exitIp: string | null
  readonly interceptsTls: boolean | null
  readonly error: CheckError | null
}

export type PlannedProxy = {
  readonly id: string
  /** The address on which it listens. */
  readonly ip: string
  /** The source address of its requests. */
  readonly exitIp: string
  readonly protocols: readonly Protocol[]
  readonly anonymity: Anonymity
  readonly fault: Fault
  /** For the fault `flapping`: the length of a period, milliseconds. */
  readonly periodMs: number
  /** For the fault `flapping`: the result during a working period. */
  readonly truth: ExpectedCheck
}

const protocolSets: readonly (readonly Protocol[])[] = [
  ['http'],
  ['http', 'https'],
  ['socks5'],
  ['https'],
  ['socks4', 'socks5'],
  ['socks4'],
  ['http', 'https', 'socks4', 'socks5'],
]

const minuteMs = 60_000
/** The source address of this machine without a proxy. */
const machineAddress = '127.0.0.1'

/**
 * The exit address of a proxy. Only plain HTTP requests have proxy headers. So a transparent proxy without `http`
 * reveals its client by the client's address as the source.
 */
const exitOf = (protocols: readonly Protocol[], anonymity: Anonymity, own: string): string =>
  anonymity === 'transparent' && !protocols.includes('http') ? machineAddress : own

const deadCheck = (error: CheckError, interceptsTls: boolean | null = null): ExpectedCheck => ({
  alive: false,
  protocols: [],
  anonymity: null,
  exitIp: null,
  interceptsTls,
  error,
})

/** Faults that must read requests to change answers. They terminate TLS with their own certificate. */
export const tamperingFaults: ReadonlySet<Fault> = new Set(['forger', 'replayer', 'tamperer'])

const truthOf = (
  fault: Fault,
  { protocols, anonymity, exitIp }: Pick<PlannedProxy, 'protocols' | 'anonymity' | 'exitIp'>,
): ExpectedCheck => {
  const workingCheck: ExpectedCheck = {
    alive: true,
    protocols,
    anonymity,
    exitIp,
    interceptsTls: protocols.some((protocol) => protocol !== 'http') ? false : null,
    error: null,
  }
  switch (fault) {
    case 'none':
    case 'flapping':
      return workingCheck
    case 'interceptor':
      return protocols.includes('http')
        ? { ...workingCheck, protocols: ['http'], interceptsTls: protocols.length > 1 ? true : null }
        : deadCheck('tls_error', true)
    case 'refused':
      return deadCheck('refused')
    case 'locked':
      return deadCheck('auth_required')
    default:
      return tamperingFaults.has(fault) && protocols.includes('https')
        ? deadCheck('tls_error', true)
        : deadCheck('bad_response')
  }
}

/**
 * The address of each proxy, from 127.80.0.1 on, 250 per /24. The exit addresses are 8 networks higher (127.88.0.1).
 */
const addressOf = (network: number, at: number): string =>
  `127.${network}.${Math.floor(at / 250)}.${1 + (at % 250)}`

/** Every second proxy works. The others have each fault in turn. */
const faultOf = (at: number): Fault => {
  if (at % 2 === 0) return 'none'
  return faults[1 + (((at - 1) / 2) % (faults.length - 1))]!
}

/** The anonymity level. Without plain HTTP requests only `elite` and `transparent` are possible. */
const anonymityOf = (protocols: readonly Protocol[], at: number): Anonymity => {
  const candidate = (['elite', 'anonymous', 'transparent'] as const)[Math.floor(at / 2) % 3]!
  return candidate === 'anonymous' && !protocols.includes('http') ? 'elite' : candidate
}

/** Proxies of every protocol, anonymity level and fault. The result depends only on the count. */
export const planProxies = (count: number): readonly PlannedProxy[] =>
  Array.from({ length: count }, (_, at) => {
    const fault = faultOf(at)
    const protocols = protocolSets[Math.floor(at / 6) % protocolSets.length]!
    const anonymity = anonymityOf(protocols, at)
    const exitIp = exitOf(protocols, anonymity, addressOf(88, at))
    const traits = { protocols, anonymity, exitIp }
    return {
      id: `proxy-${at + 1}`,
      ip: addressOf(80, at),
      fault,
      periodMs: 7 * minuteMs,
      ...traits,
      truth: truthOf(fault, traits),
    }
  })
