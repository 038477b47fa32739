import type pg from 'pg'
import { newId } from '../../kernel/ids.ts'
import { SealBroken, type Vault } from './seal.ts'

/** What signs in to somebody's proxy. */
export type Login = { readonly username: string; readonly password: string }

/** A login as an event names it, and where it signs in, e.g. `http proxy.example:8080`. */
export type LoginRef = { readonly credentialId: string; readonly place: string }

/** A login with whose it is and where it signs in. */
export type PlacedLogin = { readonly owner: string; readonly place: string; readonly login: Login }

/** Logins, sealed, each under an id that an event may name. A changed login is a new row under a new id. */
export type Logins = {
  /** By credential id; those that are not there, do not open or sign in elsewhere are left out. */
  read(logins: readonly LoginRef[]): Promise<ReadonlyMap<string, Login>>
  /** Stores them and gives their ids, in order. */
  store(logins: readonly PlacedLogin[]): Promise<readonly string[]>
  /** Stores them under ids that come from what they are: one that is there stays. */
  storeAs(logins: readonly (PlacedLogin & { readonly credentialId: string })[]): Promise<void>
  /** Takes away what these owners have beside the given ids. */
  dropOthers(kept: readonly { readonly owner: string; readonly credentialId: string | null }[]): Promise<void>
  drop(credentialIds: readonly string[]): Promise<void>
  /**
   * Opens what was read from the table by another statement.
   * @throws SealBroken for what was not sealed under this id, or signs in elsewhere
   */
  open(login: LoginRef, sealed: Uint8Array): Login
  /** Whether it was sealed under this id, wherever it signs in. */
  isSealed(credentialId: string, sealed: Uint8Array): boolean
}

/** As it is sealed. One of a release before 0.2.0 has no place: it signs in wherever its exit or address says. */
type SealedLogin = Login & { readonly place?: string }

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
  const openSealed = (credentialId: string, sealed: Uint8Array): SealedLogin =>
    JSON.parse(vault.open(sealed, contextOf(credentialId)).toString('utf8')) as SealedLogin
  const open: Logins['open'] = ({ credentialId, place }, sealed) => {
    const { username, password, place: bound = place } = openSealed(credentialId, sealed)
    if (bound !== place) throw new SealBroken(`the login ${credentialId} signs in elsewhere than at ${place}`)
    return { username, password }
  }
  const orNull = <Value>(opened: () => Value): Value | null => {
    try {
      return opened()
    } catch (error) {
      if (error instanceof SealBroken) return null
      throw error
    }
  }
  const storeAs: Logins['storeAs'] = async (logins) => {
    if (logins.length === 0) return
    await pool.query(
      `insert into ${of.table} (credential_id, ${of.owner}, sealed)
       select * from unnest($1::text[], $2::text[], $3::bytea[]) on conflict (credential_id) do nothing`,
      [
        logins.map(({ credentialId }) => credentialId),
        logins.map(({ owner }) => owner),
        logins.map(({ credentialId, login, place }) =>
          vault.seal(
            Buffer.from(JSON.stringify({ ...login, place } satisfies SealedLogin)),
            contextOf(credentialId),
          ),
        ),
      ],
    )
  }
  return {
    open,
    isSealed: (credentialId, sealed) => orNull(() => openSealed(credentialId, sealed)) !== null,
    read: async (refs) => {
      if (refs.length === 0) return new Map()
      const { rows } = await pool.query<{ credential_id: string; sealed: Buffer }>(
        `select credential_id, sealed from ${of.table} where credential_id = any ($1::text[])`,
        [refs.map(({ credentialId }) => credentialId)],
      )
      const placeOf = new Map(refs.map(({ credentialId, place }) => [credentialId, place]))
      return new Map(
        rows.flatMap(({ credential_id: id, sealed }) => {
          const login = orNull(() => open({ credentialId: id, place: placeOf.get(id) ?? '' }, sealed))
          return login === null ? [] : [[id, login]]
        }),
      )
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
