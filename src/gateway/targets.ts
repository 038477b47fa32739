import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { domainToASCII } from 'node:url'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { MonotonicClock } from '../kernel/clock.ts'
import { isAllowedAddress } from '../platform/outgoing/target.ts'
import type { Denied } from './gateway-ports.ts'
import { targetBlocked } from './refusals.ts'

/** The destination of a connection. */
export type Target = {
  /** A name in lower case without the last dot, or an address without brackets. */
  readonly host: string
  /** 0: a name. */
  readonly family: 0 | 4 | 6
  readonly port: number
}

const maxNameLength = 253
const name = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/
/** The C library resolves `127.1`, `0x7f000001` and `2130706433` as addresses. They are never valid names. */
const endsInNumber = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/

/** The ASCII form of a UTF-8 name, given as one character per byte: curl without IDN support sends such names. */
const toAscii = (text: string): string =>
  /[\x80-\xff]/.test(text) ? domainToASCII(Buffer.from(text, 'latin1').toString('utf8')) : text

/**
 * @param hostInput a name or an address; IPv6 without brackets; one character per byte.
 * @returns null when it is neither
 */
export const targetOf = (hostInput: string, port: number): Target | null => {
  if (!(port >= 1 && port <= 65_535)) return null
  const text = toAscii(hostInput)
  const family = isIP(text)
  // A zone id names an interface of this machine.
  if (family !== 0) return text.includes('%') ? null : { host: text, family: family as 4 | 6, port }
  const host = (text.endsWith('.') ? text.slice(0, -1) : text).toLowerCase()
  if (host.length > maxNameLength || !name.test(host) || endsInNumber.test(host)) return null
  return { host, family: 0, port }
}

const digits = /^\d{1,5}$/

/** Parses `host:port` or `[address]:port`. The port is optional if `defaultPort` is set. */
export const parseAuthority = (text: string, defaultPort: number | null): Target | null => {
  const isBracketed = text.startsWith('[')
  const end = isBracketed ? text.indexOf(']') : text.indexOf(':')
  if (isBracketed && end === -1) return null
  const host = isBracketed ? text.slice(1, end) : end === -1 ? text : text.slice(0, end)
  const rest = isBracketed ? text.slice(end + 1) : end === -1 ? '' : text.slice(end)
  if (isBracketed !== (isIP(host) === 6)) return null
  // The port in a URL may be empty (RFC 3986 section 3.2.3), the port of CONNECT may not (RFC 9110 section 9.3.6).
  if (rest === '' || rest === ':') return defaultPort === null ? null : targetOf(host, defaultPort)
  if (!rest.startsWith(':') || !digits.test(rest.slice(1))) return null
  return targetOf(host, Number(rest.slice(1)))
}

/** The host as written in a request line or a `Host` field. */
export const hostText = ({ host, family }: Target): string => (family === 6 ? `[${host}]` : host)

/** Targets that are blocked for all clients, independent of their resolved addresses. */
export type TargetPolicy = {
  readonly blockedPorts: ReadonlySet<number>
  /** Names with all their subdomains, in lower case; and addresses. */
  readonly blockedHosts: ReadonlySet<string>
}

/**
 * Mail, because recipients would attribute it to us, and Windows shares. Networks lose their addresses for these.
 */
const defaultBlockedPorts = [25, 135, 137, 138, 139, 445, 465, 587, 2525] as const

export const defaultTargetPolicy: TargetPolicy = {
  blockedPorts: new Set(defaultBlockedPorts),
  blockedHosts: new Set(),
}

const file = z.strictObject({
  blockedPorts: z.array(z.int().min(1).max(65_535)).default([...defaultBlockedPorts]),
  blockedHosts: z
    .array(z.string().regex(/^[A-Za-z0-9_.:-]{1,253}$/, 'a host name or an address'))
    .default([]),
})

/**
 * The policy of a file, such as `{"blockedPorts": [25], "blockedHosts": ["example.com"]}`. Missing keys have their
 * defaults.
 * @throws Error with each mistake and its path
 */
export const parseTargetPolicy = (text: string): TargetPolicy => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Error('the target policy must be JSON, e.g. {"blockedPorts": [25], "blockedHosts": []}')
  }
  const parsed = file.safeParse(value)
  if (!parsed.success)
    throw new Error(
      `the target policy has a mistake: ${parsed.error.issues
        .map(({ path, message }) => `${path.join('.') || 'the file'}: ${message}`)
        .join(
          '; ',
        )}. It has blockedPorts (whole numbers from 1 to 65535) and blockedHosts (names or addresses)`,
    )
  return {
    blockedPorts: new Set(parsed.data.blockedPorts),
    blockedHosts: new Set(parsed.data.blockedHosts.map((host) => host.toLowerCase())),
  }
}

/** Whether the name or one of its parent domains is blocked. */
const isBlockedHost = (host: string, { blockedHosts }: TargetPolicy): boolean => {
  if (blockedHosts.size === 0) return false
  for (let rest = host; ; ) {
    if (blockedHosts.has(rest)) return true
    const dot = rest.indexOf('.')
    if (dot === -1) return false
    rest = rest.slice(dot + 1)
  }
}

export type TargetRules = {
  /** Checks the request's host and port, before an exit is chosen. */
  refused(target: Target): Denied | null
  /**
   * Checks an address: a literal one, or one that a name resolved to just before it is dialled. Names that the exit
   * resolves itself are not checked here. The exit is responsible for them.
   * @param loopback whether the exit may connect to this machine's loopback
   */
  refusedAddress(address: string, port: number, loopback: boolean): Denied | null
  /**
   * Checks the host of a request without resolving it: a literal address, or a name such as `localhost`, which always
   * means the machine that resolves it.
   */
  refusedHost(target: Target, loopback: boolean): Denied | null
}

type OwnAddresses = {
  /** Addresses of this machine. */
  has(address: string): boolean
  /** Ports of the gateway itself. */
  readonly ports: ReadonlySet<number>
}

const localhostName = /(?:^|\.)localhost$/
const normalized = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '').toLowerCase()
const isLoopback = (address: string): boolean => /^127\.|^::1$/.test(normalized(address))

/** The machine's addresses are read again at most this often, milliseconds. */
const interfacesMs = 30_000

export const ownAddresses = (clock: () => number, ports: ReadonlySet<number>): OwnAddresses => {
  let addresses: ReadonlySet<string> = new Set()
  let readMs = Number.NEGATIVE_INFINITY
  return {
    has: (address) => {
      if (clock() - readMs > interfacesMs) {
        readMs = clock()
        const all = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
        addresses = new Set(all.map((each) => each.address.toLowerCase()))
      }
      return addresses.has(normalized(address))
    },
    ports,
  }
}

export const createTargetRules = (
  policy: TargetPolicy,
  own: OwnAddresses,
  allowLoopback: () => boolean,
): TargetRules => {
  const refusedAddress: TargetRules['refusedAddress'] = (address, port, loopback) => {
    if (isBlockedHost(normalized(address), policy))
      return targetBlocked('This host is blocked by the usage policy.')
    const canLoop = loopback || allowLoopback()
    if (!isAllowedAddress(address, { allowLoopback: canLoop }))
      return targetBlocked('The target has a private, local or reserved address.')
    const isGateway = isLoopback(address) ? own.ports.has(port) : own.has(address)
    return isGateway ? targetBlocked('The target is the gateway itself.') : null
  }
  return {
    refused: ({ host, port }) => {
      if (policy.blockedPorts.has(port)) return targetBlocked(`Port ${port} is blocked by the usage policy.`)
      return isBlockedHost(host, policy) ? targetBlocked('This host is blocked by the usage policy.') : null
    },
    refusedAddress,
    refusedHost: ({ host, family, port }, loopback) => {
      if (family !== 0) return refusedAddress(host, port, loopback)
      return localhostName.test(host) && !loopback && !allowLoopback()
        ? targetBlocked('The target has a private, local or reserved address.')
        : null
    },
  }
}

/**
 * The addresses of a name, both families. Rejects with an error whose `code` is `ENOTFOUND` or `ENODATA` if the name
 * does not exist; other codes mean that there was no answer in time.
 */
export type Resolve = (name: string) => Promise<readonly string[]>

type Found = { readonly addresses: readonly string[]; readonly ttlSeconds: number }
export type Lookup = (name: string) => Promise<Found>

const maxNames = 10_000
const minMs = 5_000
const maxMs = 300_000
/** An absent name is looked up again after this time, milliseconds. */
const absentMs = 5_000
const timeoutMs = 2_000
const tries = 2

const localhost: Found = { addresses: ['127.0.0.1', '::1'], ttlSeconds: maxMs / 1_000 }

/**
 * Queries DNS directly. `getaddrinfo` would block one of the four threads of the process until the name server answers.
 */
export const queryDns = (): Lookup => {
  const resolver = new Resolver({ timeout: timeoutMs, tries })
  return async (name) => {
    if (name === 'localhost' || name.endsWith('.localhost')) return localhost
    const answers = await Promise.allSettled([
      resolver.resolve4(name, { ttl: true }),
      resolver.resolve6(name, { ttl: true }),
    ])
    const records = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (records.length === 0) throw answers.map((answer) => (answer as PromiseRejectedResult).reason)[0]
    return {
      addresses: records.map(({ address }) => address),
      ttlSeconds: Math.min(...records.map(({ ttl }) => ttl)),
    }
  }
}

const isAbsent = (error: unknown): boolean => {
  const { code } = error as { code?: unknown }
  return code === 'ENOTFOUND' || code === 'ENODATA'
}

/**
 * Caches addresses for their TTL, but at least 5 seconds and at most 5 minutes; absent names for 5 seconds. It caches
 * at most 10,000 names. Concurrent look-ups of a name share one query.
 */
export const cachedResolve = (lookup: Lookup, clock: MonotonicClock): Resolve => {
  type Entry = { readonly answer: Promise<readonly string[]>; untilMs: number }
  const entries = new LRUCache<string, Entry>({ max: maxNames })
  const query = (name: string): Entry => {
    const lookupResult = lookup(name)
    const entry: Entry = {
      answer: lookupResult.then(({ addresses }) => addresses),
      untilMs: Number.POSITIVE_INFINITY,
    }
    const until = (ms: number): void => {
      entry.untilMs = clock() + ms
    }
    lookupResult.then(
      ({ ttlSeconds }) => until(Math.min(Math.max(ttlSeconds * 1_000, minMs), maxMs)),
      (error) => until(isAbsent(error) ? absentMs : 0),
    )
    entry.answer.catch(() => undefined) // the caller handles the rejection
    entries.set(name, entry)
    return entry
  }
  return (name) => {
    const cached = entries.get(name)
    return cached !== undefined && clock() < cached.untilMs
      ? cached.answer.then((addressList) => addressList)
      : query(name).answer
  }
}
