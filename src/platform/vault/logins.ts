import type pg from 'pg'
import { newId } from '../../kernel/ids.ts'
import { SealBroken, type Vault } from './seal.ts'

/** The login of an upstream proxy. */
export type Login = { readonly username: string; readonly password: string }

/** The reference to a login in an event, and the address where it is used, e.g. `http proxy.example:8080`. */
export type LoginRef = { readonly credentialId: string; readonly place: string }

/** A login with its owner and the address where it is used. */
export type PlacedLogin = { readonly owner: string; readonly place: string; readonly login: Login }

/** Encrypted logins, each under an id that an event may contain. A changed login is a new row with a new id. */
export type Logins = {
  /** The logins by credential id. Omits logins that are missing, cannot be decrypted or belong to another address. */
  read(logins: readonly LoginRef[]): Promise<ReadonlyMap<string, Login>>
  /** Stores the logins and returns their ids in order. */
  store(logins: readonly PlacedLogin[]): Promise<readonly string[]>
  /** Stores the logins under ids that are derived from their contents. An existing login is not changed. */
  storeAs(logins: readonly (PlacedLogin & { readonly credentialId: string })[]): Promise<void>
  /** Deletes the logins of these owners, except those with the given ids. */
  dropOthers(
    retained: readonly { readonly owner: string; readonly credentialId: string | null }[],
  ): Promise<void>
  drop(credentialIds: readonly string[]): Promise<void>
  /**
   * Decrypts bytes that another statement read from the table.
   * @throws SealBroken if the bytes were not encrypted under this id, or the login belongs to another address
   */
  open(login: LoginRef, sealed: Uint8Array): Login
  /** Whether the bytes were encrypted under this id, for any address. */
  isSealed(credentialId: string, sealed: Uint8Array): boolean
}

/**
 * The encrypted form. A login of a release before 0.2.0 has no `place`: `open` accepts it for any place.
 */
type SealedLogin = Login & { readonly place?: string }

/**
 * The logins in one table of the vault.
 * @param of the table, its column of owners, the encryption context (a login can be decrypted under this one only),
 * and the prefix of its ids
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
      const withIds = logins.map((each) => ({ ...each, credentialId: newId(of.prefix) }))
      await storeAs(withIds)
      return withIds.map(({ credentialId }) => credentialId)
    },
    dropOthers: async (retained) => {
      await pool.query(
        `delete from ${of.table} old using unnest($1::text[], $2::text[]) now (owner, credential_id)
          where old.${of.owner} = now.owner and old.credential_id is distinct from now.credential_id`,
        [retained.map(({ owner }) => owner), retained.map(({ credentialId }) => credentialId)],
      )
    },
    drop: async (credentialIds) => {
      if (credentialIds.length === 0) return
      await pool.query(`delete from ${of.table} where credential_id = any ($1::text[])`, [credentialIds])
    },
  }
}

/** Whether two logins are equal. An absent login differs from an empty one. */
export const sameLogin = (a: Login | null | undefined, b: Login | null | undefined): boolean =>
  a?.username === b?.username && a?.password === b?.password
