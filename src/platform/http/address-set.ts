import { BlockList, isIP, isIPv4 } from 'node:net'

/** Says whether an address is one of a set of addresses and networks. */
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

/** What a comma-separated list names, e.g. `127.0.0.1, 10.0.0.0/8`. */
export const listed = (list: string): readonly string[] =>
  list
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')

/**
 * The set of addresses and networks, e.g. `127.0.0.1` and `2001:db8::/32`. Text that is no address is in none.
 * @throws Error that names the entry that is neither
 */
export const addressSet = (entries: readonly string[]): AddressSet => {
  const blocks = new BlockList()
  for (const entry of entries) addEntry(blocks, entry)
  return (address) => isIP(address) !== 0 && blocks.check(address, family(address))
}
