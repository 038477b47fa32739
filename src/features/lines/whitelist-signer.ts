import type pg from 'pg'
import type { Targeting } from '../../domain/exits/exit-targeting.ts'
import { canonicalJson } from '../../kernel/json-text.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import { createRowSigner } from '../../platform/vault/seal.ts'
import { signOldRows } from '../../platform/vault/sign-old-rows.ts'

/** What an entry of the whitelist lets in. */
export type SignedEntry = {
  readonly account_id: string
  readonly plan_id: string
  /** As Postgres writes it, e.g. `203.0.113.7/32`. */
  readonly network: string
  readonly targeting: Targeting | null
}

/**
 * Signs the rows of the whitelist with a key of the master key, because the gateway does not read the log: a row that is
 * written with SQL alone lets no address use a plan.
 */
export const createWhitelistSigner = (
  keys: Pick<Keys, 'master'>,
): {
  readonly sign: (entry: SignedEntry) => Buffer
  readonly isSigned: (entry: SignedEntry & { readonly signature: Buffer | null }) => boolean
} => {
  const signer = createRowSigner(keys.master, 'whitelist entry v1')
  const fieldsOf = ({ account_id, plan_id, network, targeting }: SignedEntry) => [
    account_id,
    plan_id,
    network,
    targeting && canonicalJson(targeting),
  ]
  return {
    sign: (entry) => signer.sign(fieldsOf(entry)),
    isSigned: (entry) => signer.isSigned(fieldsOf(entry), entry.signature),
  }
}

/** Signs the rows that an older release left. */
export const adoptWhitelist = async (pool: pg.Pool, keys: Pick<Keys, 'master'>): Promise<void> => {
  const { sign } = createWhitelistSigner(keys)
  await signOldRows<SignedEntry & { readonly entry_id: string }>(
    pool,
    `select entry_id, account_id, plan_id, network::text, targeting from vault.whitelist
      where signature is null and entry_id > $1::text order by entry_id`,
    ({ entry_id }) => entry_id,
    (rows) =>
      pool.query(
        `update vault.whitelist w set signature = s.signature
           from unnest($1::text[], $2::bytea[]) as s (entry_id, signature)
          where w.entry_id = s.entry_id and w.signature is null`,
        [rows.map(({ entry_id }) => entry_id), rows.map(sign)],
      ),
  )
}
