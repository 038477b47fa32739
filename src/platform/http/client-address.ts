import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv4, isIPv6, type Socket } from 'node:net'

/** Whether an address is in a set of addresses and networks. */
export type AddressSet = (address: string) => boolean

const family = (address: string): 'ipv4' | 'ipv6' => (isIPv4(address) ? 'ipv4' : 'ipv6')

const addEntry = (blocks: BlockList, entry: string): void => {
  const [address = '', prefix, ...rest] = entry.split('/')
  const bits = isIPv4(address) ? 32 : 128
  const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN
  if (isIP(address) === 0 || rest.length > 0 || !(length >= 0 && length <= bits))
    throw new Error(`"${entry}" is neither an IP address nor a network such as 10.0.0.0/8`)
  blocks.addSubnet(address, length, family(address))
}

/** The entries of a comma-separated list, e.g. `127.0.0.1, 10.0.0.0/8`. */
export const listed = (list: string): readonly string[] =>
  list
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')

/**
 * The set of addresses and networks, e.g. `127.0.0.1` and `2001:db8::/32`. Text that is not an address is in no set.
 * @throws Error that names an entry that is neither an address nor a network
 */
export const addressSet = (entries: readonly string[]): AddressSet => {
  const blocks = new BlockList()
  for (const entry of entries) addEntry(blocks, entry)
  return (address) => isIP(address) !== 0 && blocks.check(address, family(address))
}

/** Whether an address is one of the operator's own proxies, whose `X-Forwarded-For` is trusted. */
export type TrustedProxies = AddressSet

export const noTrustedProxies: TrustedProxies = () => false

/**
 * Trusted proxies from a comma-separated list of addresses and networks, e.g. `127.0.0.1, 10.0.0.0/8`.
 * @throws Error that names an entry that is neither an address nor a network
 */
export const trustedProxies = (list: string): TrustedProxies => {
  const entries = listed(list)
  return entries.length === 0 ? noTrustedProxies : addressSet(entries)
}

/** Maps `::ffff:203.0.113.7` to `203.0.113.7`. */
export const unmapped = (address: string): string => {
  const tail = address.startsWith('::ffff:') ? address.slice(7) : ''
  return isIPv4(tail) ? tail : address
}

/** The address of the peer: the client, or a proxy in front of it. */
export const peerAddress = ({ remoteAddress }: Socket): string => unmapped(remoteAddress ?? '')

const port = /^:\d{1,5}$/

/**
 * The address of an entry of `X-Forwarded-For`. Some proxies write its port as well: `203.0.113.7:4711`,
 * `[2001:db8::1]:443`. An entry in neither form is returned unchanged.
 */
const addressOf = (entry: string): string => {
  const bracketed = entry.startsWith('[')
  const end = entry.indexOf(bracketed ? ']' : ':')
  if (end === -1) return entry
  const address = entry.slice(bracketed ? 1 : 0, end)
  const rest = entry.slice(bracketed ? end + 1 : end)
  const isAddress = bracketed ? isIPv6(address) : isIPv4(address)
  return isAddress && (port.test(rest) || (bracketed && rest === '')) ? address : entry
}

/**
 * The client's address: the peer's, or, if the peer is a trusted proxy, the last entry of `X-Forwarded-For` that is not
 * a trusted proxy. Earlier entries are the client's own claim and are not trusted.
 */
export const clientAddress = (request: IncomingMessage, trusted: TrustedProxies): string => {
  let address = peerAddress(request.socket)
  if (trusted === noTrustedProxies || !trusted(address)) return address
  const forwarded = request.headers['x-forwarded-for']
  const chain = (Array.isArray(forwarded) ? forwarded.join(',') : (forwarded ?? '')).split(',')
  for (let at = chain.length - 1; at >= 0 && trusted(address); at--) {
    const entry = unmapped(addressOf((chain[at] ?? '').trim()))
    if (isIP(entry) === 0) return address
    address = entry
  }
  return address
}

/** The subject of a limit per address: an IPv4 address, or the /64 network that one IPv6 subscriber has. */
export const addressSubject = (address: string): string => (isIPv6(address) ? network64(address) : address)

const network64 = (address: string): string => {
  const [head = '', tail] = (address.split('%')[0] ?? '').split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const groups =
    tail === undefined
      ? left
      : [...left, ...Array(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right]
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}

/** The shortest prefix of an operator's own proxy networks, bits. The prefixes of content networks are longer. */
const narrowest = { ipv4: 8, ipv6: 20 } as const

/** Unique local addresses (RFC 4193) are not used on the public Internet. */
const isUniqueLocal = addressSet(['fc00::/7'])

const isWide = (entry: string): boolean => {
  const [address = '', prefix] = entry.split('/')
  if (prefix === undefined) return false
  const bits = Number(prefix)
  if (isIPv4(address)) return bits < narrowest.ipv4
  return bits < narrowest.ipv6 && !(bits >= 7 && isUniqueLocal(address))
}

/** The entries of a valid list of trusted proxies that cover a large part of the Internet, such as `0.0.0.0/0`. */
export const wideNetworks = (list: string): readonly string[] => listed(list).filter(isWide)
