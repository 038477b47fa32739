import { BlockList, isIP } from 'node:net'

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
