import { addressSet, listed } from '../../kernel/ip-address.ts'
import { tokenForm } from '../../platform/vault/secrets.ts'

declare const brand: unique symbol

/** A complete API key, a secret: `fbx_`, 34 random base62 characters, 6 of checksum (docs/http-api.md, "Names"). */
export type ApiKey = string & { readonly [brand]: 'ApiKey' }

const form = tokenForm<ApiKey>('fbx_')

/** Generates a key of 202 random bits. */
export const generateKey = form.generate

/** Parses a key; null if its form or checksum is wrong, so that a typo needs no query. */
export const parseKey = form.parse

/** SHA-256. Only the hash of a key is stored. */
export const hashKey = form.hash

/** The first 8 characters, for display. */
export const displayPrefixOf = form.displayPrefixOf

/** The largest number of addresses and networks of one key. */
export const maxNetworks = 50

/** Parses addresses and networks with commas between. A failure has a sentence for the reader. */
export const parseNetworks = (
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
