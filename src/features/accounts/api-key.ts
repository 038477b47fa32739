import { addressSet, listed } from '../../platform/http/client-address.ts'
import { tokenForm } from '../../platform/vault/secrets.ts'

declare const brand: unique symbol

/** A whole API key, a secret: `fbx_`, 34 random base62 characters, 6 of checksum (docs/http-api.md, "Names"). */
export type ApiKey = string & { readonly [brand]: 'ApiKey' }

const form = tokenForm<ApiKey>('fbx_')

/** A fresh key of 202 random bits. */
export const generateKey = form.generate

/** The text as a key, or null when its form or checksum is wrong: a typo costs no look-up. */
export const parseKey = form.parse

/** SHA-256, all that is kept of a key. */
export const hashKey = form.hash

/** The first 8 characters, for display. */
export const displayPrefixOf = form.displayPrefixOf

/** Addresses and networks that one key may name. */
export const maxNetworks = 50

/** The addresses and networks that a text names, with commas between, or what is wrong with it as a sentence. */
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
