import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'

const notForSale = new BlockList()
for (const [net, prefix] of [
  ['0.0.0.0', 8],
  ['127.0.0.0', 8],
  ['224.0.0.0', 4],
  ['255.255.255.255', 32],
] as const)
  notForSale.addSubnet(net, prefix, 'ipv4')
for (const [net, prefix] of [
  ['::', 128],
  ['::1', 128],
  ['ff00::', 8],
] as const)
  notForSale.addSubnet(net, prefix, 'ipv6')

/**
 * The canonical text of an IP address, because it is part of a stream name: dotted IPv4, or IPv6 by RFC 5952. Null for
 * an invalid address, an address with a zone, an IPv4-mapped IPv6 address, and an address that cannot belong to one
 * host (unspecified, loopback, multicast, broadcast). Private and documentation ranges are allowed, for tests and labs.
 */
export const canonicalIp = (text: string): string | null => {
  const version = isIP(text)
  if (version === 0 || text.includes('%')) return null
  // The URL standard serialises IPv6 hosts by the rules of RFC 5952.
  const ip = version === 6 ? new URL(`http://[${text}]`).hostname.slice(1, -1) : text
  if (ip.startsWith('::ffff:')) return null
  return notForSale.check(ip, version === 6 ? 'ipv6' : 'ipv4') ? null : ip
}

/** Whether two addresses are in the same network: a /24 of IPv4, or a /64 of IPv6. */
export const ofOneNetwork = (one: string, other: string): boolean => {
  const family = isIP(one) === 6 ? 'ipv6' : 'ipv4'
  if ((isIP(other) === 6 ? 'ipv6' : 'ipv4') !== family) return false
  const network = new BlockList()
  network.addSubnet(one, family === 'ipv6' ? 64 : 24, family)
  return network.check(other, family)
}

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

/** Whether an address is in a set of addresses and networks. */
export type AddressSet = (address: string) => boolean

/** Maps `::ffff:203.0.113.7` to `203.0.113.7`. */
export const unmapped = (address: string): string => {
  const tail = address.startsWith('::ffff:') ? address.slice(7) : ''
  return isIPv4(tail) ? tail : address
}

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

/** The subject of a limit per address: an IPv4 address, or the /64 network that one IPv6 subscriber has. */
export const addressSubject = (address: string): string => (isIPv6(address) ? network64(address) : address)
