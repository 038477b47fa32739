import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import { accountStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Caller, Directory } from '../../platform/http/auth.ts'
import { type AddressSet, addressSet } from '../../platform/http/client-address.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'
import type { Watch } from '../../platform/projections/progress.ts'
import { ReadsBehind } from '../../platform/projections/read-your-writes.ts'
import { hashKey, parseKey } from './api-key.ts'

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
  const gathered = createBatchLoader(async (ids: readonly string[]) => {
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

export type DirectoryOptions = FindCallerDeps & {
  /** Of the tables `accounts` and `keys`. */
  readonly watch: Watch
  readonly clock: Clock
  /** What is wrong with this process's clock, by which no key is found to be expired or not; else null. */
  readonly clockProblem: () => string | null
  /** Told of each request that a key lets in. */
  readonly onUse: (keyId: KeyId) => void
  /** Default `performance.now`. */
  readonly monotonicMs?: MonotonicClock
}

/**
 * How long a caller is used that nothing was told of: its e-mail is outside the log. Where this process may have missed a
 * change it is half a second, so that a revocation and a block act within a second on every process.
 */
const callerMs = 10_000
const untoldMs = 500
/** A key may be tried just before it is issued. */
const unknownMs = 100
/** Callers that are cached. */
const maxCallers = 20_000
const maxUnknown = 1_000

type Cached = { readonly found: FoundKey; readonly version: number | null; readonly askedMs: number }

/**
 * Looks API keys up, without a query for a key that was asked for since accounts and keys changed last; requests that come
 * at once share one query. Keys are cached by their hash. A key with a wrong checksum costs no look-up, and unknown keys
 * have a cache of their own, so that sending many of them drives no caller out.
 */
export const createDirectory = ({
  monotonicMs = () => performance.now(),
  clock,
  clockProblem,
  onUse,
  watch,
  ...deps
}: DirectoryOptions): Directory => {
  const findCaller = createFindCaller(deps)
  const callers = new LRUCache<string, Cached>(growingCacheOptions(maxCallers))
  const unknown = new LRUCache<string, number>({ max: maxUnknown })
  const lookUps = new Map<string, Promise<FoundKey | null>>()

  const ask = async (id: string, hash: Buffer): Promise<FoundKey | null> => {
    // What is found is at least as new as this moment.
    const version = watch.version()
    const askedMs = monotonicMs()
    const found = await findCaller(hash)
    if (found) {
      callers.set(id, { found, version, askedMs })
      unknown.delete(id)
    } else {
      callers.delete(id)
      unknown.set(id, askedMs)
    }
    return found
  }

  const lookUp = (id: string, hash: Buffer): Promise<FoundKey | null> => {
    const running = lookUps.get(id)
    if (running) return running
    const started = ask(id, hash).finally(() => lookUps.delete(id))
    lookUps.set(id, started)
    return started
  }

  const isCurrent = ({ version, askedMs }: Cached): boolean =>
    version === watch.version() && monotonicMs() - askedMs < (version === null ? untoldMs : callerMs)

  const find = async (text: string): Promise<FoundKey | null> => {
    const key = parseKey(text)
    if (key === null) return null
    const hash = hashKey(key)
    const id = hash.toString('base64')
    const cached = callers.get(id)
    if (cached && isCurrent(cached)) return cached.found
    const missedMs = unknown.get(id)
    if (missedMs !== undefined && monotonicMs() - missedMs < unknownMs) return null
    return lookUp(id, hash)
  }

  return {
    async byKey(text, address) {
      const found = await find(text)
      if (!found) return null
      const { caller, expiresAtMs, worksFrom } = found
      // What is cached is held to the time and the address of each use, so a key ends with its last millisecond.
      if (expiresAtMs !== null) {
        const problem = clockProblem()
        if (problem !== null) throw refuseWithRetryAfter('overloaded', problem, 5)
        if (clock() >= expiresAtMs) return null
      }
      if (worksFrom !== null && !worksFrom(address)) return null
      onUse(caller.keyId)
      return caller
    },
  }
}
