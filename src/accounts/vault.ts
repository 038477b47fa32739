import type pg from 'pg'
import type { AccountId, KeyId } from '../ids.ts'

/**
 * The account id that an e-mail belongs to: the given one when the e-mail was free, else the one that took it before.
 * E-mails that differ in case only are one.
 */
export const claimEmail = async (pool: pg.Pool, email: string, fresh: AccountId): Promise<AccountId> => {
  // A row of a transaction that is just committing is neither inserted nor seen: the second look sees it.
  for (let attempt = 0; attempt < 10; attempt += 1) {
    const { rows } = await pool.query<{ account_id: AccountId }>(
      `with made as (
         insert into vault.accounts (account_id, email) values ($1::text, $2::text)
         on conflict ((lower(email))) do nothing returning account_id
       )
       select account_id from made
       union all select account_id from vault.accounts where lower(email) = lower($2::text)`,
      [fresh, email],
    )
    if (rows[0]) return rows[0].account_id
  }
  throw new Error('an e-mail is neither free nor taken; the table vault.accounts needs a look')
}

/** Keeps a key's hash. The key works once its `KeyIssued` is in the log. */
export const storeKey = async (
  pool: pg.Pool,
  key: { readonly hash: Buffer; readonly keyId: KeyId; readonly accountId: AccountId },
): Promise<void> => {
  await pool.query(
    'insert into vault.api_keys (hash, key_id, account_id) values ($1::bytea, $2::text, $3::text)',
    [key.hash, key.keyId, key.accountId],
  )
}

/** Drops the hash of a key that was refused. */
export const dropKey = async (pool: pg.Pool, keyId: KeyId): Promise<void> => {
  await pool.query('delete from vault.api_keys where key_id = $1::text', [keyId])
}

/** The account whose key it is, or null. */
export const accountOfKey = async (pool: pg.Pool, keyId: KeyId): Promise<AccountId | null> => {
  const { rows } = await pool.query<{ account_id: AccountId }>(
    'select account_id from vault.api_keys where key_id = $1::text',
    [keyId],
  )
  return rows[0]?.account_id ?? null
}

/** The account's e-mail; null when it was erased. */
export const emailOf = async (pool: pg.Pool, accountId: AccountId): Promise<string | null> => {
  const { rows } = await pool.query<{ email: string }>(
    'select email from vault.accounts where account_id = $1::text',
    [accountId],
  )
  return rows[0]?.email ?? null
}

/** Up to `limit` accounts that a key was ever made for, after the given one, in the order of their ids. */
export const accountsWithKeys = async (
  pool: pg.Pool,
  after: AccountId | null,
  limit: number,
): Promise<readonly AccountId[]> => {
  const { rows } = await pool.query<{ account_id: AccountId }>(
    `select distinct account_id from vault.api_keys
     where account_id > $1::text order by account_id limit $2::integer`,
    [after ?? '', limit],
  )
  return rows.map(({ account_id }) => account_id)
}
