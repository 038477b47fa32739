import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import ipaddr from 'ipaddr.js'

const wordOf = (value: unknown): string | null =>
  typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : null

/**
 * What kind of fault an error is: its code or its cause's (`ECONNREFUSED`), else its name. Never its text, which may hold
 * what the other side wrote.
 */
export const faultKind = (error: unknown): string => {
  const { name, code, cause } = error as { name?: unknown; code?: unknown; cause?: unknown }
  const inner = cause as { name?: unknown; code?: unknown } | undefined
  return wordOf(code) ?? wordOf(inner?.code) ?? wordOf(inner?.name) ?? wordOf(name) ?? 'fault'
}

/** What may be dialled beside public addresses over https (for webhooks `FAREBOX_WEBHOOK_ALLOW_LOOPBACK`). */
export type TargetRules = { readonly allowLoopback: boolean }

/** The target is not one that may be called; the message says why and names no address that DNS gave. */
export class TargetRefused extends Error {
  override readonly name = 'TargetRefused'
}

/** The addresses of a host name, both families; rejects when it does not resolve. */
export type Resolve = (hostname: string) => Promise<readonly string[]>

/** 2000::/3 is all that is given out (RFC 4291); `ipaddr.js` also calls `::127.0.0.1` in its hex form unicast. */
const isGlobalUnicast = ({ parts }: ipaddr.IPv6): boolean => ((parts[0] ?? 0) & 0xe000) === 0x2000

/**
 * Addresses in the public ranges that lead to a cloud's own machinery from within it (its agents, DNS and metadata), and
 * nowhere from elsewhere. Those of the other clouds (169.254.169.254, 100.100.100.200, 192.0.0.192, fd00:ec2::254) are
 * in ranges that are refused anyway.
 */
const platform: readonly [ipaddr.IPv4, number][] = [
  '168.63.129.16/32', // Azure, all regions
  '192.80.8.124/32', // Equinix Metal
  '161.26.0.0/16', // IBM Cloud
  '166.8.0.0/14', // IBM Cloud
].map((network) => ipaddr.IPv4.parseCIDR(network))

const isPlatform = (address: ipaddr.IPv4): boolean => platform.some((network) => address.match(network))

/** ISATAP (RFC 5214) carries an IPv4 address, private ones too, behind any prefix. */
const isIsatap = ({ parts }: ipaddr.IPv6): boolean =>
  (parts[4] === 0 || parts[4] === 0x200) && parts[5] === 0x5efe

/**
 * One rule for every form: what `ipaddr.js` calls unicast, once an IPv4 address in IPv6 form is read as what it is.
 * That leaves out private, loopback, link-local, CGNAT, multicast, documentation, benchmarking, 6to4, Teredo, NAT64,
 * discard, unique local, unspecified, broadcast and reserved ranges; a cloud's own addresses are left out, too. What cannot be
 * read is refused.
 */
export const isAllowedAddress = (address: string, { allowLoopback }: TargetRules): boolean => {
  if (isIP(address) === 0 || !ipaddr.isValid(address)) return false
  const parsed = ipaddr.process(address)
  const range = parsed.range()
  if (allowLoopback && range === 'loopback') return true
  if (range !== 'unicast') return false
  return parsed instanceof ipaddr.IPv4 ? !isPlatform(parsed) : isGlobalUnicast(parsed) && !isIsatap(parsed)
}

/** Names that are never public: special uses (RFC 6761, 6762, 8375), what networks use inside, names without a dot. */
const internalName =
  /^(?:[^.]+|.*\.(?:localhost|local|internal|intranet|private|corp|home|lan|home\.arpa|test|invalid|onion))$/

const isLoopbackName = (hostname: string): boolean => /^(?:.*\.)?localhost\.?$/.test(hostname)

/** TLS names no root dot (RFC 6066, 3), and certificates have none. */
export const withoutRootDot = (hostname: string): string => hostname.replace(/\.$/, '')

/** The host of a URL without brackets and without the dot of an absolute name. */
const hostOf = ({ hostname }: URL): string => withoutRootDot(hostname.replace(/^\[|\]$/g, ''))

export const maxUrlLength = 2048

/**
 * The URL, when its text alone does not rule it out. The URL standard reads every form of an IPv4 literal (decimal, hex,
 * octal, short) as dotted, so one check on the address covers them.
 * @throws TargetRefused
 */
export const parseTarget = (text: string, rules: TargetRules): URL => {
  if (text.length > maxUrlLength) throw new TargetRefused(`must have at most ${maxUrlLength} characters`)
  if (!URL.canParse(text))
    throw new TargetRefused('must be an absolute URL such as https://example.com/hooks')
  const url = new URL(text)
  // The URL standard repairs `https:example.com` and `https:\\example.com`; whoever reads it otherwise sees another host.
  if (!/^https?:\/\/[^/\\]/i.test(text))
    throw new TargetRefused('must be an absolute URL such as https://example.com/hooks')
  if (url.protocol !== 'https:' && !(rules.allowLoopback && url.protocol === 'http:'))
    throw new TargetRefused('must start with https://')
  if (url.username !== '' || url.password !== '') throw new TargetRefused('must not carry a user or password')
  if (url.port === '0') throw new TargetRefused('must not name port 0')
  const host = hostOf(url)
  if (isIP(host) !== 0) {
    if (!isAllowedAddress(host, rules))
      throw new TargetRefused('must not point to a private or reserved address')
  } else if (internalName.test(host) && !(rules.allowLoopback && isLoopbackName(host)))
    throw new TargetRefused('must not point to a private or internal host')
  return url
}

/**
 * The addresses of a host that may all be dialled. One that may not refuses the host: an attacker who mixes public and
 * private answers must not have the choice made by chance.
 * @throws TargetRefused, and what `resolve` throws
 */
export const allowedAddresses = async (
  hostname: string,
  resolve: Resolve,
  rules: TargetRules,
): Promise<readonly string[]> => {
  const addresses = await resolve(hostname)
  if (addresses.length === 0) throw new Error(`${hostname} has no address`)
  if (!addresses.every((address) => isAllowedAddress(address, rules)))
    throw new TargetRefused('the host name leads to a private or reserved address')
  return addresses
}

const dnsTimeoutMs = 3_000

/**
 * Asks DNS itself (c-ares): `getaddrinfo` would hold one of four threads of the process for as long as a slow name
 * server likes. `localhost` needs no DNS.
 */
export const createResolve = (): Resolve => {
  const resolver = new Resolver({ timeout: dnsTimeoutMs, tries: 2 })
  return async (hostname) => {
    if (isLoopbackName(hostname)) return ['127.0.0.1']
    const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (found.length > 0) return found
    throw (answers[0] as PromiseRejectedResult).reason
  }
}

/**
 * How long a registration waits for the name. Its name server may be anybody's, and one that never answers would hold the
 * request's place among those of all customers for nine seconds.
 */
const registrationMs = 1_000

const orLate = async (asked: Promise<unknown>): Promise<void> => {
  const over = new AbortController()
  const late = sleep(registrationMs, undefined, { signal: over.signal }).catch(() => undefined)
  try {
    await Promise.race([asked, late])
  } finally {
    over.abort()
  }
}

/**
 * The check at registration: what the text says, and where the name leads just now. A host that does not resolve in time
 * is taken (docs/http-api.md); every connection checks again.
 * @throws TargetRefused
 */
export const checkTarget = async (
  text: string,
  { resolve, rules }: { readonly resolve: Resolve; readonly rules: TargetRules },
): Promise<URL> => {
  const url = parseTarget(text, rules)
  const host = hostOf(url)
  if (isIP(host) !== 0) return url
  try {
    await orLate(allowedAddresses(host, resolve, rules))
  } catch (error) {
    if (error instanceof TargetRefused) throw error
  }
  return url
}
