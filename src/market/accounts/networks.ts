import { addressSet, listed } from '../../platform/http/address-set.ts'

/** Addresses and networks that one key may name. */
export const maxNetworks = 50

/** The addresses and networks that a text names, with commas between, or what is wrong with it as a sentence. */
export const networksIn = (
  text: string,
): { readonly networks: readonly string[] } | { readonly problem: string } => {
  const networks = [...new Set(listed(text.toLowerCase()))]
  if (networks.length === 0 || networks.length > maxNetworks)
    return { problem: `It must be 1 to ${maxNetworks} addresses or networks.` }
  const mapped = networks.find((network) => network.startsWith('::ffff:'))
  if (mapped !== undefined) return { problem: `Write ${mapped} as an IPv4 address or network.` }
  try {
    addressSet(networks)
  } catch (error) {
    return { problem: `${(error as Error).message}.` }
  }
  return { networks }
}
