import type pg from 'pg'
import { ReadsBehind } from '../../../projections/engine/reads.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { type AddressSet, addressSet } from '../../platform/http/address-set.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { createGathered } from '../../platform/postgres/gathered.ts'
import type { Scope } from '../../terms/scope.ts'
import { accountStream } from '../../terms/streams.ts'

export type FindCallerDeps = {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'lastOf'>
  /** Resolves true once the read models of accounts and keys are past a position, false at its bound. */
  reached(position: number): Promise<boolean>
}

type Found = {
  readonly hash: Buffer
  readonly account_id: AccountId
  readonly key_id: KeyId
  readonly email: string | null
  readonly scopes: readonly Scope[] | null
  readonly daily_cap_cents: number | null
  readonly revoked: boolean | null
  readonly expires_at: string | null
  readonly networks: readonly string[] | null
  readonly cap_key_id: KeyId | null
  readonly reseller: boolean
  readonly blocked: boolean
}

/**
 * The index compares hashes in a time that depends on their bytes. That gives no key away: a guess has an unpredictable
 * hash, so learning how many bytes of it matched does not help to choose the next guess.
 */
const query = `
  select k.hash, k.account_id, k.key_id, v.email, r.scopes, r.daily_cap_cents, r.revoked,
         r.expires_at, r.networks, r.cap_key_id,
         coalesce(a.reseller, false) as reseller, coalesce(a.blocked, false) as blocked
  from vault.api_keys k
  left join vault.accounts v on v.account_id = k.account_id
  left join read.keys r on r.key_id = k.key_id and r.account_id = k.account_id
  left join read.accounts a on a.account_id = k.account_id
  where k.hash = any ($1::bytea[])`

/** No table, or one of an older version. */
const unmade: ReadonlySet<unknown> = new Set(['42P01', '42703'])

/** A key that was issued and not revoked, with what it is held to at each use. */
export type FoundKey = {
  readonly caller: Caller
  /** Milliseconds since the epoch; null for one that works until it is revoked. */
  readonly expiresAtMs: number | null
  /** Where it works from; null for anywhere. */
  readonly worksFrom: AddressSet | null
}

const foundOf = (row: Found): FoundKey | null =>
  row.scopes === null || row.revoked !== false
    ? null
    : {
        caller: {
          accountId: row.account_id,
          keyId: row.key_id,
          capKeyId: row.cap_key_id ?? row.key_id,
          scopes: row.scopes,
          dailyCapCents: row.daily_cap_cents,
          reseller: row.reseller,
          blocked: row.blocked,
          email: row.email ?? '',
        },
        expiresAtMs: row.expires_at === null ? null : Date.parse(row.expires_at),
        worksFrom: row.networks === null ? null : addressSet(row.networks),
      }

/**
 * The key that has this hash, or null for an unknown or revoked one; hashes that are asked for at once share a
 * query. A hash that the read models do not know yet is either a key of this moment (it is waited for) or one whose
 * `KeyIssued` never came (no key).
 * @throws ReadsBehind when they do not catch up in time: a valid key is never answered 401
 */
export const createFindCaller = ({ pool, log, reached }: FindCallerDeps) => {
  const gathered = createGathered(async (ids: readonly string[]) => {
    const values = [ids.map((id) => Buffer.from(id, 'base64'))]
    const { rows } = await pool.query<Found>({ name: 'find-caller', text: query, values })
    return new Map(rows.map((row) => [row.hash.toString('base64'), row]))
  })
  const look = (hash: Buffer): Promise<Found | undefined> => gathered(hash.toString('base64'))
  const behind = () => new ReadsBehind('the API key is not readable yet; try again')
  const first = async (hash: Buffer): Promise<Found | undefined> => {
    try {
      return await look(hash)
    } catch (error) {
      // The read tables are being made: the first start of a database, or of a version that has others.
      if (!unmade.has((error as { code?: unknown }).code)) throw error
      if (!(await reached(0))) throw behind()
      return await look(hash)
    }
  }
  return async (hash: Buffer): Promise<FoundKey | null> => {
    const found = await first(hash)
    if (!found) return null
    if (found.scopes !== null) return foundOf(found)
    const last = await log.lastOf(accountStream(found.account_id))
    if (!last) return null
    if (!(await reached(last.position))) throw behind()
    const again = await look(hash)
    return again ? foundOf(again) : null
  }
}
