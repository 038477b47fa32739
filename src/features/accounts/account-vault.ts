import type pg from 'pg'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import { commitmentOf, freshSalt, saltedText } from '../../platform/vault/seal.ts'

/** The commitment of an account's e-mail in its event. */
export const emailCommitment = (accountId: string, salt: Uint8Array, email: string): string =>
  commitmentOf({ what: 'account-email', id: accountId, owner: accountId }, saltedText(salt, email))

/** A stored e-mail. An event must have the same `commitment`; null for a row without one. */
export type StoredEmail = {
  readonly accountId: AccountId
  readonly email: string
  readonly commitment: string | null
}

type EmailRow = { readonly account_id: AccountId; readonly email: string; readonly salt: Buffer | null }

const storedEmail = ({ account_id: accountId, email, salt }: EmailRow): StoredEmail => ({
  accountId,
  email,
  commitment: salt && emailCommitment(accountId, salt, email),
})

/**
 * Claims an e-mail. Returns the given account id if the e-mail was free, else the id of the account that owns it.
 * E-mails are compared case-insensitively.
 */
export const claimEmail = async (
  pool: pg.Pool,
  email: string,
  newAccountId: AccountId,
): Promise<{ readonly accountId: AccountId; readonly commitment: string }> => {
  const { rows } = await pool.query<EmailRow & { readonly salt: Buffer }>(
    `insert into vault.accounts (account_id, email, salt) values ($1::text, $2::text, $3::bytea)
     on conflict ((lower(email))) do update set salt = coalesce(vault.accounts.salt, excluded.salt)
     returning account_id, email, salt`,
    [newAccountId, email, freshSalt()],
  )
  const { account_id: accountId, email: emailInVault, salt } = rows[0]!
  return { accountId, commitment: emailCommitment(accountId, salt, emailInVault) }
}

/** The account of the key, or null. */
export const accountOfKey = async (pool: pg.Pool, keyId: KeyId): Promise<AccountId | null> => {
  const { rows } = await pool.query<{ account_id: AccountId }>(
    'select account_id from vault.api_keys where key_id = $1::text',
    [keyId],
  )
  return rows[0]?.account_id ?? null
}

/** The account's e-mail; null when it was erased. */
export const emailOf = async (pool: pg.Pool, accountId: AccountId): Promise<StoredEmail | null> => {
  const { rows } = await pool.query<EmailRow>(
    'select account_id, email, salt from vault.accounts where account_id = $1::text',
    [accountId],
  )
  return rows[0] ? storedEmail(rows[0]) : null
}

/** The e-mails of accounts, for lists. Accounts without an e-mail are missing. */
export const emailsOf = async (
  pool: pg.Pool,
  accountIds: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  const { rows } = await pool.query<EmailRow>(
    'select account_id, email from vault.accounts where account_id = any ($1::text[])',
    [accountIds],
  )
  return new Map(rows.map(({ account_id: accountId, email }) => [accountId, email]))
}

/** The account that claimed this e-mail, in any case, or null. The account may never have been created. */
export const accountOfEmail = async (pool: pg.Pool, email: string): Promise<StoredEmail | null> => {
  const { rows } = await pool.query<EmailRow>(
    'select account_id, email, salt from vault.accounts where lower(email) = lower($1::text)',
    [email],
  )
  return rows[0] ? storedEmail(rows[0]) : null
}

/** An account in a list. */
export type ListedAccount = {
  readonly accountId: AccountId
  /** Null if it was erased, or if the log was moved without its vault. */
  readonly email: string | null
  /** ISO 8601 UTC. */
  readonly createdAt: string
}

type ListedRow = {
  readonly account_id: AccountId
  readonly email: string | null
  readonly created_at: string
}

/**
 * A page of accounts, newest first: accounts with an e-mail and, if the read tables exist, those without one. An e-mail
 * whose account was not created (its command was killed) is also listed.
 */
export const listAccounts = async (
  pool: pg.Pool,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly accounts: readonly ListedAccount[]; readonly total: number }> => {
  const tableCheck = await pool.query<{ found: boolean }>(
    `select to_regclass('read.accounts') is not null as found`,
  )
  const accountsQuery = `(select account_id, email, created_at from vault.accounts${
    tableCheck.rows[0]?.found === true
      ? ` union all
        select r.account_id, null, r.created_at from read.accounts r
        where not exists (select from vault.accounts v where v.account_id = r.account_id)`
      : ''
  }) known`
  const [listResult, countResult] = await Promise.all([
    // Account ids begin with the time of their creation.
    pool.query<ListedRow>(
      `select account_id, email, created_at from ${accountsQuery}
       order by account_id desc limit $1::bigint offset $2::bigint`,
      [page.limit, page.offset],
    ),
    pool.query<{ total: number }>(`select count(*) as total from ${accountsQuery}`),
  ])
  const accounts = listResult.rows.map(
    ({ account_id: accountId, email, created_at: createdAt }): ListedAccount => ({
      accountId,
      email,
      createdAt,
    }),
  )
  return { accounts, total: countResult.rows[0]?.total ?? 0 }
}

/** An account of the read tables, with its e-mail and its balance. */
export type KnownAccount = ListedAccount & {
  readonly reseller: boolean
  readonly blocked: boolean
  readonly availableMicros: number
}

/**
 * Up to `limit` accounts after `after` (null: the newest), newest first, whose e-mail contains `search`. Needs the read
 * tables.
 */
export const accountsAfter = async (
  pool: pg.Pool,
  page: {
    readonly after: string | null
    readonly limit: number
    readonly search: string
    readonly kind?: 'customer' | 'reseller' | undefined
    readonly state?: 'active' | 'blocked' | undefined
  },
): Promise<readonly KnownAccount[]> => {
  const { after, limit, search, kind, state } = page
  // Account ids begin with the time of their creation.
  const { rows } = await pool.query<
    ListedRow & { readonly reseller: boolean; readonly blocked: boolean; readonly available: number }
  >(
    `select r.account_id, v.email, r.created_at, r.reseller, r.blocked,
            coalesce(b.available_micros, 0)::bigint as available
       from read.accounts r
       left join vault.accounts v on v.account_id = r.account_id
       left join read.balances b on b.account_id = r.account_id
      where ($1::text is null or r.account_id < $1::text)
        and ($3::text = '' or strpos(lower(v.email), lower($3::text)) > 0 or starts_with(r.account_id, $3::text))
        and ($4::boolean is null or r.reseller = $4::boolean) and ($5::boolean is null or r.blocked = $5::boolean)
      order by r.account_id desc limit $2::bigint`,
    [after, limit, search, kind ? kind === 'reseller' : null, state ? state === 'blocked' : null],
  )
  return rows.map(
    ({ account_id: accountId, email, created_at: createdAt, reseller, blocked, available }) => ({
      accountId,
      email,
      createdAt,
      reseller,
      blocked,
      availableMicros: available,
    }),
  )
}

/** Up to `limit` accounts that ever had a key, after the given one, by id. */
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
