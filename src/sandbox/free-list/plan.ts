import type { Anonymity, CheckError, Protocol } from '../../domain/free-list/endpoint.ts'

/** What is wrong with a proxy of the sandbox; `none` works as it says. */
export const faults = [
  'none',
  /** Nothing listens. */
  'refused',
  /** Takes connections and says nothing. */
  'tar_pit',
  /** Resets every connection. */
  'reset',
  /** Answers a byte at a time and comes to no end. */
  'drip',
  /** Answers in the judge's place with what it makes up. */
  'forger',
  /** Answers with what the judge said to an earlier request. */
  'replayer',
  /** Takes out of the judge's answer what shows that it is a proxy. */
  'tamperer',
  /** Ends TLS itself, with a certificate of its own. */
  'interceptor',
  /** Wants a username and a password. */
  'locked',
  /** A web server: a page for whatever it is asked. */
  'web_server',
  /** Is there for one period of its clock and away for the next. */
  'flapping',
] as const
export type Fault = (typeof faults)[number]

/** What a check of it is to find. */
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
  /** It listens there. */
  readonly ip: string
  /** Its requests come from there. */
  readonly exitIp: string
  readonly protocols: readonly Protocol[]
  readonly anonymity: Anonymity
  readonly fault: Fault
  /** Of one that flaps: how long it is there, and how long away, milliseconds. */
  readonly periodMs: number
  /** Of one that flaps, while it is there. */
  readonly truth: ExpectedCheck
}

const mixes: readonly (readonly Protocol[])[] = [
  ['http'],
  ['http', 'https'],
  ['socks5'],
  ['https'],
  ['socks4', 'socks5'],
  ['socks4'],
  ['http', 'https', 'socks4', 'socks5'],
]

const minuteMs = 60_000
/** Where this machine is seen when it asks without a proxy. */
const ours = '127.0.0.1'

/** Only plain requests carry headers: a proxy that has no `http` shows whom it works for by going out from there. */
const exitOf = (protocols: readonly Protocol[], anonymity: Anonymity, own: string): string =>
  anonymity === 'transparent' && !protocols.includes('http') ? ours : own

const dead = (error: CheckError, interceptsTls: boolean | null = null): ExpectedCheck => ({
  alive: false,
  protocols: [],
  anonymity: null,
  exitIp: null,
  interceptsTls,
  error,
})

/** Who tells lies about a request must read it: over TLS it answers with a certificate of its own. */
export const tamperingFaults: ReadonlySet<Fault> = new Set(['forger', 'replayer', 'tamperer'])

const truthOf = (
  fault: Fault,
  { protocols, anonymity, exitIp }: Pick<PlannedProxy, 'protocols' | 'anonymity' | 'exitIp'>,
): ExpectedCheck => {
  const works: ExpectedCheck = {
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
      return works
    case 'interceptor':
      return protocols.includes('http')
        ? { ...works, protocols: ['http'], interceptsTls: protocols.length > 1 ? true : null }
        : dead('tls_error', true)
    case 'refused':
      return dead('refused')
    case 'locked':
      return dead('auth_required')
    default:
      return tamperingFaults.has(fault) && protocols.includes('https')
        ? dead('tls_error', true)
        : dead('bad_response')
  }
}

/** An address for each proxy, 250 in a row: 127.80.0.1 and on; those that they go out from stand 8 networks higher. */
const addressOf = (network: number, at: number): string =>
  `127.${network}.${Math.floor(at / 250)}.${1 + (at % 250)}`

/** Of ten, five work; the others have each fault in turn. */
const faultOf = (at: number): Fault => {
  if (at % 2 === 0) return 'none'
  return faults[1 + (((at - 1) / 2) % (faults.length - 1))]!
}

/** Whether anonymity shows at all: without plain requests there is elite and transparent, and nothing between. */
const anonymityOf = (protocols: readonly Protocol[], at: number): Anonymity => {
  const wanted = (['elite', 'anonymous', 'transparent'] as const)[Math.floor(at / 2) % 3]!
  return wanted === 'anonymous' && !protocols.includes('http') ? 'elite' : wanted
}

/** Proxies of every protocol, anonymity and fault; the same for the same count. */
export const planProxies = (count: number): readonly PlannedProxy[] =>
  Array.from({ length: count }, (_, at) => {
    const fault = faultOf(at)
    const protocols = mixes[Math.floor(at / 6) % mixes.length]!
    const anonymity = anonymityOf(protocols, at)
    const exitIp = exitOf(protocols, anonymity, addressOf(88, at))
    const told = { protocols, anonymity, exitIp }
    return {
      id: `proxy-${at + 1}`,
      ip: addressOf(80, at),
      fault,
      periodMs: 7 * minuteMs,
      ...told,
      truth: truthOf(fault, told),
    }
  })
