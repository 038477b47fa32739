import { createHash, randomBytes } from 'node:crypto'
import ipaddr from 'ipaddr.js'

/**
 * An address of an IPv6 prefix. The same name always gives the same one; null: one by chance.
 * @param prefix such as `2001:db8:1::/64`
 * @throws Error when the prefix is none
 */
export const addressIn = (prefix: string, name: string | null): string => {
  const [network, bits] = ipaddr.IPv6.parseCIDR(prefix)
  const fill = name === null ? randomBytes(16) : createHash('sha256').update(name).digest().subarray(0, 16)
  const bytes = network.toByteArray().map((byte, at) => {
    const fixed = Math.min(Math.max(bits - 8 * at, 0), 8)
    const mask = (0xff << (8 - fixed)) & 0xff
    return (byte & mask) | ((fill[at] ?? 0) & ~mask & 0xff)
  })
  return new ipaddr.IPv6(bytes).toString()
}
