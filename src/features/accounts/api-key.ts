import { addressSet, listed } from '../../kernel/ip-address.ts'
import { tokenForm } from '../../kernel/token-form.ts'
import type { KeyKind } from './key-store.ts'

declare const brand: unique symbol

/** A complete API key, a secret: `fbx_`, 34 random base62 characters, 6 of checksum (docs/reference/api.md). */
export type ApiKey = string & { readonly [brand]: 'ApiKey' }

export const apiKeyForm = tokenForm<ApiKey>('fbx_')

/** API keys of accounts. */
export const apiKeyKind: KeyKind<ApiKey> = {
  form: apiKeyForm,
  idPrefix: 'key',
  what: 'api-key',
  insert: ({ hash, id, owner, salt }) => ({
    text: `insert into vault.api_keys (hash, key_id, account_id, salt)
           values ($1::bytea, $2::text, $3::text, $4::bytea)`,
    values: [hash, id, owner, salt],
  }),
  deleteSql: 'delete from vault.api_keys where key_id = $1::text',
  findQuery: {
    name: 'find-caller',
    text: `select k.hash, k.salt, k.account_id as owner, k.key_id as id, v.email
             from vault.api_keys k left join vault.accounts v on v.account_id = k.account_id
            where k.hash = any ($1::bytea[])`,
  },
}

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
