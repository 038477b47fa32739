import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { type Protocol, type SocketAddress, socketAddressText } from '../../domain/free-list/endpoint.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { createTally } from '../../kernel/tally.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import type { RateLimiter } from '../../platform/http/rate-limiter.ts'
import { parseTarget, type Resolve, TargetRefused } from '../../platform/outgoing/target.ts'
import {
  type CandidateRefusal,
  type CandidateRules,
  type Check,
  CheckUnavailable,
  candidateRefusal,
  emptyIpFacts,
  type IpData,
} from '../free-list/index.ts'
import { hostNotFoundResult, type ProxyCheckResult, toCheckResult } from './check-result.ts'

/** The resolved and checked address of a proxy. Null: its name has no address. */
export type ResolvedAddress = SocketAddress | null

const reasons: Readonly<Record<CandidateRefusal, string>> = {
  private_address: 'it has a private or reserved address',
  own_address: 'its address is one of this service',
  blocked_port: 'its port is one of mail',
  not_of_sandbox: 'the sandbox checks only its own proxies, which /api/free-proxies lists',
}

const refused = (displayText: string, reason: string) =>
  refuse('invalid_parameter', `${displayText} is not checked: ${reason}; nothing was sent to any proxy`)

const addressesOf = async (host: string, resolve: Resolve): Promise<readonly string[]> => {
  if (isIP(host) !== 0) return [host]
  try {
    return await resolve(host)
  } catch {
    // Whatever the name server answered, there is no address to dial.
    return []
  }
}

const checkName = (host: string, displayText: string): void => {
  if (isIP(host) !== 0) return
  try {
    parseTarget(`https://${host}/`, { allowLoopback: false })
  } catch (error) {
    if (error instanceof TargetRefused) throw refused(displayText, 'its host is private or internal')
    throw error
  }
}

/**
 * Resolves a proxy's host once and checks all of its addresses. The check dials the first address, without another
 * resolution. The host is refused if one of its addresses may not be dialled.
 * @param displayText its name in the refusal, without a password
 * @throws invalid_parameter
 */
export const resolveProxyHost = async (
  { host, port }: WrittenProxy,
  displayText: string,
  dependencies: { readonly resolve: Resolve; readonly rules: CandidateRules },
): Promise<ResolvedAddress> => {
  checkName(host, displayText)
  const addresses = await addressesOf(host, dependencies.resolve)
  for (const ip of addresses) {
    const refusal = candidateRefusal({ ip, port }, dependencies.rules)
    if (refusal !== null) throw refused(displayText, reasons[refusal])
  }
  const [ip] = addresses
  return ip === undefined ? null : { ip, port }
}

export const maxProxies = 20
export const defaultTimeoutMs = 10_000
export const timeoutBounds = { min: 1_000, max: 20_000 } as const

export type CheckOrder = {
  /** As people write them, at most `maxProxies`. */
  readonly proxies: readonly string[]
  /** Default: all, or the one in a proxy's scheme. */
  readonly protocols?: readonly Protocol[] | undefined
  readonly timeoutMs?: number | undefined
  /** The subject of rate limits. */
  readonly caller: string
  /** Aborts all checks. */
  readonly signal: AbortSignal
}

/** A result with the index of its proxy in the order. */
export type Finding = { readonly index: number; readonly result: ProxyCheckResult }

/**
 * Accepts the whole order or refuses it before anything is dialled. Yields one result for each proxy, in order of
 * completion. Ending the iteration aborts the remaining checks. Rejects with rate_limited, invalid_parameter or
 * overloaded.
 */
export type CheckProxies = (order: CheckOrder) => Promise<AsyncGenerator<Finding, void>>

type Job = { readonly written: WrittenProxy; readonly place: ResolvedAddress; readonly shown: string }

const displayTextOf = ({ host, port }: WrittenProxy): string => socketAddressText({ ip: host, port })

const readAll = (texts: readonly string[]): readonly WrittenProxy[] =>
  texts.map((text, at) => {
    const written = readProxy(text)
    // The text is not in the message because it may contain a password.
    if (written === null)
      throw refuse(
        'invalid_parameter',
        `${texts.length === 1 ? 'the proxy' : `proxy ${at + 1} of ${texts.length}`} must be ${proxyForms}`,
      )
    return written
  })

/** Yields the values in order of completion. */
async function* inCompletionOrder<Value>(running: readonly Promise<Value>[]): AsyncGenerator<Value, void> {
  const pending = new Map(running.map((promise, at) => [at, promise.then((value) => ({ at, value }))]))
  while (pending.size > 0) {
    const { at, value } = await Promise.race(pending.values())
    pending.delete(at)
    yield value
  }
}

export const createCheckProxies = (dependencies: {
  readonly check: Check
  readonly rules: () => Promise<CandidateRules>
  readonly resolve: Resolve
  readonly data: IpData
  readonly slots: CheckSlots
  /** Takes one token for each proxy; null: no limit. */
  readonly limiter: { readonly take: RateLimiter['take']; readonly burst: number } | null
  readonly clock: Clock
}): CheckProxies => {
  const { check, data, limiter, clock } = dependencies

  /** @returns a function that releases one slot */
  const admit = ({ caller, proxies: { length } }: CheckOrder): (() => void) => {
    const waitS = limiter?.take(caller, Math.min(length, limiter.burst)) ?? 0
    if (waitS > 0)
      throw refuseWithRetryAfter('rate_limited', `${length} checks are more than you may have now`, waitS)
    const releaseSlots = dependencies.slots.take(caller, length)
    if (releaseSlots === 'of caller')
      throw refuseWithRetryAfter('rate_limited', 'as many checks of yours run as may; await some', 1)
    if (releaseSlots === 'of all') throw refuseWithRetryAfter('overloaded', 'as many checks run as may', 1)
    return releaseSlots
  }

  const checkOne = async (
    { written, place: resolvedAddress, shown: displayText }: Job,
    order: CheckOrder,
    signal: AbortSignal,
  ) => {
    const checkedAt = isoTime(clock())
    if (resolvedAddress === null) return hostNotFoundResult(displayText, checkedAt)
    const { protocols = written.protocol === null ? undefined : [written.protocol] } = order
    const checkResult = await check(
      resolvedAddress,
      {
        timeoutMs: order.timeoutMs ?? defaultTimeoutMs,
        ...(protocols === undefined ? {} : { protocols }),
        ...(written.login === null ? {} : { login: written.login }),
      },
      signal,
    )
    return toCheckResult(
      displayText,
      checkResult,
      checkResult.exitIp === null ? emptyIpFacts : await data.of(checkResult.exitIp),
      checkedAt,
    )
  }

  return async (order) => {
    const parsedProxies = readAll(order.proxies)
    const releaseSlot = admit(order)
    let yieldedCount = 0
    try {
      const resolveOptions = { resolve: dependencies.resolve, rules: await dependencies.rules() }
      const jobs = await Promise.all(
        parsedProxies.map(async (written) => {
          const displayText = displayTextOf(written)
          return {
            written,
            shown: displayText,
            place: await resolveProxyHost(written, displayText, resolveOptions),
          }
        }),
      )
      const stopping = new AbortController()
      const signal = AbortSignal.any([order.signal, stopping.signal])
      const running = jobs.map(async (job, index) => {
        yieldedCount += 1
        try {
          return { index, result: await checkOne(job, order, signal) }
        } finally {
          releaseSlot()
        }
      })
      // The consumer of the results gets a rejection. Without a consumer it is ignored.
      for (const result of running) result.catch(() => undefined)
      return (async function* () {
        try {
          yield* inCompletionOrder(running)
        } catch (error) {
          if (error instanceof CheckUnavailable)
            throw refuseWithRetryAfter('overloaded', `checks cannot be made now: ${error.message}`, 5)
          throw error
        } finally {
          stopping.abort()
          await Promise.allSettled(running)
        }
      })()
    } finally {
      // Releases the slots of a refused order.
      for (let n = yieldedCount; n < order.proxies.length; n += 1) releaseSlot()
    }
  }
}

/** Limits concurrent checks, in total and for each caller. */
export type CheckSlots = {
  /** Takes slots. Returns a function that releases one of them, or the limit that was reached. */
  take(subject: string, count: number): (() => void) | 'of caller' | 'of all'
  readonly taken: () => number
}

export const createCheckSlots = (limits: {
  readonly total: number
  readonly perCaller: number
}): CheckSlots => {
  const byCaller = createTally<string>()
  let takenSlots = 0
  return {
    taken: () => takenSlots,
    take: (subject, count) => {
      if (byCaller.of(subject) + count > limits.perCaller) return 'of caller'
      if (takenSlots + count > limits.total) return 'of all'
      takenSlots += count
      for (let n = 0; n < count; n += 1) byCaller.add(subject)
      return () => {
        takenSlots -= 1
        byCaller.remove(subject)
      }
    },
  }
}

/** A proxy in text form. */
export type WrittenProxy = {
  /** An address in its shortest form, or a lower-case name. */
  readonly host: string
  readonly port: number
  readonly login: { readonly username: string; readonly password: string } | null
  /** From its scheme; null without one. */
  readonly protocol: Protocol | null
}

export const maxProxyText = 512

export const proxyForms =
  'host:port, user:password@host:port, host:port:user:password, or either of the first two behind http://, https://, socks4:// or socks5://; an IPv6 address stands in brackets'

const schemes: Readonly<Record<string, Protocol>> = {
  http: 'http',
  https: 'https',
  socks4: 'socks4',
  socks4a: 'socks4',
  socks5: 'socks5',
  socks5h: 'socks5',
}

const hostAndPort = /^(\[[0-9a-f:.]+\]|[^:@[\]/?#\s]+):(\d{1,5})$/i
const withLoginBehind = /^((?:\[[0-9a-f:.]+\]|[^:@[\]/?#\s]+):\d{1,5}):([^:\s]+):(\S+)$/i

/**
 * Converts every notation that a URL accepts for IPv4 (decimal, octal, hex, short) to an address. The rest is a name.
 */
const hostOf = (text: string): string | null => {
  const url = URL.parse(`http://${text}/`)
  if (url === null || url.hostname === '') return null
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  return isIP(host) === 0 ? host : ipaddr.process(host).toString()
}

const decoded = (text: string): string | null => {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

const splitLogin = (
  text: string,
): { readonly place: string; readonly login: WrittenProxy['login'] } | null => {
  const at = text.lastIndexOf('@')
  if (at < 0) {
    const behind = withLoginBehind.exec(text)
    const [, addressText = '', username = '', password = ''] = behind ?? []
    return behind === null
      ? { place: text, login: null }
      : { place: addressText, login: { username, password } }
  }
  const [name = '', ...passwordParts] = text.slice(0, at).split(':')
  const [username, password] = [decoded(name), decoded(passwordParts.join(':'))]
  return username === null || username === '' || password === null
    ? null
    : { place: text.slice(at + 1), login: { username, password } }
}

/** RFC 1929 has one byte for the length of each. */
const isWithinLimits = ({ username, password }: { username: string; password: string }): boolean =>
  Buffer.byteLength(username) <= 255 && Buffer.byteLength(password) <= 255

/** Parses the text; null if it matches none of `proxyForms`. Nothing is resolved. */
export const readProxy = (text: string): WrittenProxy | null => {
  const [, scheme, behind] = /^(?:([a-z0-9]+):\/\/)?(.*?)\/?$/is.exec(text.trim()) ?? []
  const protocol = scheme === undefined ? null : schemes[scheme.toLowerCase()]
  if (behind === undefined || protocol === undefined || text.length > maxProxyText) return null
  const split = splitLogin(behind)
  const [, hostText = '', portText = ''] = hostAndPort.exec(split?.place ?? '') ?? []
  const port = Number(portText)
  const host = hostText === '' ? null : hostOf(hostText)
  if (split === null || host === null || port < 1 || port > 65_535) return null
  if (split.login !== null && !isWithinLimits(split.login)) return null
  return { host, port, login: split.login, protocol }
}
