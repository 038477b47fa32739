import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import ipaddr from 'ipaddr.js'

const wordOf = (value: unknown): string | null =>
  typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : null

/**
 * The kind of an error: its code or its cause's (`ECONNREFUSED`), else its name. Never its text, which may contain
 * text of the other side.
 */
export const faultKind = (error: unknown): string => {
  const { name, code, cause } = error as { name?: unknown; code?: unknown; cause?: unknown }
  const inner = cause as { name?: unknown; code?: unknown } | undefined
  return wordOf(code) ?? wordOf(inner?.code) ?? wordOf(inner?.name) ?? wordOf(name) ?? 'fault'
}

/** Targets besides public addresses over https (for webhooks `FAREBOX_WEBHOOK_ALLOW_LOOPBACK`). */
export type TargetRules = { readonly allowLoopback: boolean }

/** The target is not allowed. The message gives the reason and contains no address that DNS returned. */
export class TargetRefused extends Error {
  override readonly name = 'TargetRefused'
}

/** The addresses of a host name in both families. Rejects if it does not resolve. */
export type Resolve = (hostname: string) => Promise<readonly string[]>

/** Only 2000::/3 is allocated (RFC 4291). `ipaddr.js` also classifies `::127.0.0.1` in its hex form as unicast. */
const isGlobalUnicast = ({ parts }: ipaddr.IPv6): boolean => ((parts[0] ?? 0) & 0xe000) === 0x2000

/**
 * Addresses in public ranges that lead to a cloud's own services from within it (its agents, DNS and metadata), and
 * lead nowhere from elsewhere. The addresses of other clouds (169.254.169.254, 100.100.100.200, 192.0.0.192,
 * fd00:ec2::254) are in ranges that are rejected anyway.
 */
const platform: readonly [ipaddr.IPv4, number][] = [
  '168.63.129.16/32', // Azure, all regions
  '192.80.8.124/32', // Equinix Metal
  '161.26.0.0/16', // IBM Cloud
  '166.8.0.0/14', // IBM Cloud
].map((network) => ipaddr.IPv4.parseCIDR(network))

const isPlatform = (address: ipaddr.IPv4): boolean => platform.some((network) => address.match(network))

/** ISATAP (RFC 5214) embeds an IPv4 address, possibly a private one, behind any prefix. */
const isIsatap = ({ parts }: ipaddr.IPv6): boolean =>
  (parts[4] === 0 || parts[4] === 0x200) && parts[5] === 0x5efe

/**
 * One rule for every form: the address is unicast for `ipaddr.js`, after an IPv4 address in IPv6 form is converted to
 * IPv4. This excludes private, loopback, link-local, CGNAT, multicast, documentation, benchmarking, 6to4, Teredo,
 * NAT64, discard, unique local, unspecified, broadcast and reserved ranges. A cloud's own addresses and invalid
 * addresses are rejected, too.
 */
export const isAllowedAddress = (address: string, { allowLoopback }: TargetRules): boolean => {
  if (isIP(address) === 0 || !ipaddr.isValid(address)) return false
  const parsed = ipaddr.process(address)
  const range = parsed.range()
  if (allowLoopback && range === 'loopback') return true
  if (range !== 'unicast') return false
  return parsed instanceof ipaddr.IPv4 ? !isPlatform(parsed) : isGlobalUnicast(parsed) && !isIsatap(parsed)
}

/** Names that are never public: special uses (RFC 6761, 6762, 8375), internal networks, names without a dot. */
const internalName =
  /^(?:[^.]+|.*\.(?:localhost|local|internal|intranet|private|corp|home|lan|home\.arpa|test|invalid|onion))$/

const isLoopbackName = (hostname: string): boolean => /^(?:.*\.)?localhost\.?$/.test(hostname)

/** TLS server names have no root dot (RFC 6066, 3), and certificates have none. */
export const withoutRootDot = (hostname: string): string => hostname.replace(/\.$/, '')

/** The host of a URL without brackets and without the dot of an absolute name. */
const hostOf = ({ hostname }: URL): string => withoutRootDot(hostname.replace(/^\[|\]$/g, ''))

export const maxUrlLength = 2048

/**
 * Parses a URL and checks its text. The URL standard converts every form of an IPv4 literal (decimal, hex, octal,
 * short) to dotted form, so that one check on the address covers them.
 * @throws TargetRefused
 */
export const parseTarget = (text: string, rules: TargetRules): URL => {
  if (text.length > maxUrlLength) throw new TargetRefused(`must have at most ${maxUrlLength} characters`)
  if (!URL.canParse(text))
    throw new TargetRefused('must be an absolute URL such as https://example.com/hooks')
  const url = new URL(text)
  // The URL standard repairs `https:example.com` and `https:\\example.com`. Another parser may read another host.
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
 * The addresses of a host, if all of them are allowed. One address that is not allowed rejects the host: if an
 * attacker mixes public and private answers, the result must not depend on chance.
 * @throws TargetRefused, and the error of `resolve`
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
 * Queries DNS directly (c-ares): `getaddrinfo` would block one of the four threads of the process as long as a slow
 * name server does not answer. `localhost` needs no DNS.
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
 * The longest wait of a registration for the name, milliseconds. Without this limit a foreign name server that never
 * answers would block one of the request slots, which all customers share, for nine seconds.
 */
const registrationMs = 1_000

const waitInTime = async (pending: Promise<unknown>): Promise<void> => {
  const cancellation = new AbortController()
  const timedOut = sleep(registrationMs, undefined, { signal: cancellation.signal }).catch(() => undefined)
  try {
    await Promise.race([pending, timedOut])
  } finally {
    cancellation.abort()
  }
}

/**
 * The check at registration: the text of the URL, and the present addresses of its name. A host that does not resolve
 * in time is accepted (docs/reference/api.md); every connection checks again.
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
    await waitInTime(allowedAddresses(host, resolve, rules))
  } catch (error) {
    if (error instanceof TargetRefused) throw error
  }
  return url
}
