import type pg from 'pg'
import { newId } from '../../kernel/ids.ts'
import type { Vault } from './seal.ts'

/** What signs in to somebody's proxy. */
export type Login = { readonly username: string; readonly password: string }

/** Logins, sealed, each under an id that an event may name. A changed login is a new row under a new id. */
export type Logins = {
  /** By credential id; those that are not there are left out. */
  read(credentialIds: readonly string[]): Promise<ReadonlyMap<string, Login>>
  /** Stores them and gives their ids, in order. */
  store(logins: readonly { readonly owner: string; readonly login: Login }[]): Promise<readonly string[]>
  /** Stores them under ids that come from what they are: one that is there stays. */
  storeAs(
    logins: readonly { readonly credentialId: string; readonly owner: string; readonly login: Login }[],
  ): Promise<void>
  /** Takes away what these owners have beside the given ids. */
  dropOthers(kept: readonly { readonly owner: string; readonly credentialId: string | null }[]): Promise<void>
  drop(credentialIds: readonly string[]): Promise<void>
  /** Opens what was read from the table by another statement. */
  open(credentialId: string, sealed: Uint8Array): Login
}

/**
 * The logins in one table of the vault.
 * @param of the table, its column of owners, and what a login is called where it is sealed: it opens under this alone
 */
export const createLogins = (
  { pool, vault }: { readonly pool: pg.Pool; readonly vault: Vault },
  of: {
    readonly table: `vault.${string}`
    readonly owner: string
    readonly context: string
    readonly prefix: string
  },
): Logins => {
  const contextOf = (credentialId: string): string => `${of.context} ${credentialId}`
  const open = (credentialId: string, sealed: Uint8Array): Login =>
    JSON.parse(vault.open(sealed, contextOf(credentialId)).toString('utf8')) as Login
  const storeAs: Logins['storeAs'] = async (logins) => {
    if (logins.length === 0) return
    await pool.query(
      `insert into ${of.table} (credential_id, ${of.owner}, sealed)
       select * from unnest($1::text[], $2::text[], $3::bytea[]) on conflict (credential_id) do nothing`,
      [
        logins.map(({ credentialId }) => credentialId),
        logins.map(({ owner }) => owner),
        logins.map(({ credentialId, login }) =>
          vault.seal(Buffer.from(JSON.stringify(login)), contextOf(credentialId)),
        ),
      ],
    )
  }
  return {
    open,
    read: async (credentialIds) => {
      if (credentialIds.length === 0) return new Map()
      const { rows } = await pool.query<{ credential_id: string; sealed: Buffer }>(
        `select credential_id, sealed from ${of.table} where credential_id = any ($1::text[])`,
        [credentialIds],
      )
      return new Map(rows.map(({ credential_id: id, sealed }) => [id, open(id, sealed)]))
    },
    storeAs,
    store: async (logins) => {
      const named = logins.map((each) => ({ ...each, credentialId: newId(of.prefix) }))
      await storeAs(named)
      return named.map(({ credentialId }) => credentialId)
    },
    dropOthers: async (kept) => {
      await pool.query(
        `delete from ${of.table} old using unnest($1::text[], $2::text[]) now (owner, credential_id)
          where old.${of.owner} = now.owner and old.credential_id is distinct from now.credential_id`,
        [kept.map(({ owner }) => owner), kept.map(({ credentialId }) => credentialId)],
      )
    },
    drop: async (credentialIds) => {
      if (credentialIds.length === 0) return
      await pool.query(`delete from ${of.table} where credential_id = any ($1::text[])`, [credentialIds])
    },
  }
}

/** Whether two say the same; an absent one is not the same as one that is empty. */
export const sameLogin = (a: Login | null | undefined, b: Login | null | undefined): boolean =>
  a?.username === b?.username && a?.password === b?.password
