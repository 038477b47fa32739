import { isIPv4 } from 'node:net'
import { addressSet, listed } from './address-set.ts'

/** The fewest bits that a network of somebody's own proxies has; those of content networks have more. */
const narrowest = { ipv4: 8, ipv6: 20 } as const

/** Unique local addresses (RFC 4193) are nobody's on the Internet. */
const isUniqueLocal = addressSet(['fc00::/7'])

const isWide = (entry: string): boolean => {
  const [address = '', prefix] = entry.split('/')
  if (prefix === undefined) return false
  const bits = Number(prefix)
  if (isIPv4(address)) return bits < narrowest.ipv4
  return bits < narrowest.ipv6 && !(bits >= 7 && isUniqueLocal(address))
}

/** The entries of a valid list of trusted proxies that take in a large part of the Internet, such as `0.0.0.0/0`. */
export const wideNetworks = (list: string): readonly string[] => listed(list).filter(isWide)
