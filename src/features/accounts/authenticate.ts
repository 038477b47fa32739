import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type AccountState, accountRef, capOf, type KeyState } from '../../domain/accounts/fold.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import { type AddressSet, addressSet } from '../../kernel/ip-address.ts'
import { createLogStates } from '../../platform/commands/log-states.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Caller, Directory } from '../../platform/http/auth.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'
import type { Watch } from '../../platform/projections/progress.ts'
import { apiKeyForm, apiKeyKind } from './api-key.ts'
import { createKeyFinder, type KeyRow } from './key-store.ts'

export type FindCallerDependencies = {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readStreams'>
  readonly logger: Pick<Logger, 'error'>
}

type ApiKeyRow = KeyRow & { readonly email: string | null }

/** A key that was issued and not revoked, with the limits that are checked at each use. */
export type FoundKey = {
  readonly caller: Caller
  /** Milliseconds since the epoch; null: until it is revoked. */
  readonly expiresAtMs: number | null
  /** The addresses that may use the key; null: any. */
  readonly worksFrom: AddressSet | null
}

/** Finds the key with this hash; null for an unknown or revoked one. Its permissions are read from the log. */
export const createFindCaller = ({ pool, log, logger }: FindCallerDependencies) => {
  const accountOf = createLogStates(log, (owner) => accountRef(owner as AccountId))
  const findKey = createKeyFinder<ApiKeyRow, { account: NonNullable<AccountState>; key: KeyState }>(
    pool,
    apiKeyKind,
    async ({ owner, id }) => {
      const { state: account } = await accountOf(owner)
      const key = account?.keys.get(id as KeyId)
      return account && key ? { account, key } : null
    },
    ({ owner, id }) =>
      logger.error(
        { accountId: owner, keyId: id },
        'the hash of an API key is not the one that its event commits to',
      ),
  )
  return async (hash: Buffer): Promise<FoundKey | null> => {
    const found = await findKey(hash)
    if (!found) return null
    const { row, account, key } = found
    const { reseller, blocked } = account
    const { scopes, capKeyId, expiresAtMs, networks } = key
    return {
      caller: {
        accountId: row.owner as AccountId,
        keyId: row.id as KeyId,
        capKeyId,
        scopes,
        cap: capOf(key),
        reseller,
        blocked,
        email: row.email ?? '',
      },
      expiresAtMs,
      worksFrom: networks === null ? null : addressSet(networks),
    }
  }
}

export type DirectoryOptions = FindCallerDependencies & {
  /** Of the tables `accounts` and `keys`. */
  readonly watch: Watch
  readonly clock: Clock
  /** A problem of this process's clock, or null. With a problem no key's expiry can be checked. */
  readonly clockProblem: () => string | null
  /** Called for each request that a key authenticates. */
  readonly onUse: (keyId: KeyId) => void
  /** Default `performance.now`. */
  readonly monotonicMs?: MonotonicClock
}

/**
 * How long a caller is cached without a notification of a change, because its e-mail is outside the log. If this
 * process may have missed a notification it is half a second, so that a revocation and a block take effect within a
 * second on every process.
 */
const callerMs = 10_000
const unwatchedCallerMs = 500
/** A key may be tried just before it is issued. */
const unknownMs = 100
/** Callers that are cached. */
const maxCallers = 20_000
const maxUnknown = 1_000

type Cached = { readonly found: FoundKey; readonly version: number | null; readonly queriedAtMs: number }

/**
 * Authenticates API keys. A key that was found after the last change of accounts and keys needs no query. Concurrent
 * requests share one query. Keys are cached by their hash. A key with a wrong checksum needs no query. Unknown keys
 * have their own cache, so that many of them cannot evict callers.
 */
export const createDirectory = ({
  monotonicMs = () => performance.now(),
  clock,
  clockProblem,
  onUse,
  watch,
  ...dependencies
}: DirectoryOptions): Directory => {
  const findCaller = createFindCaller(dependencies)
  const callers = new LRUCache<string, Cached>(growingCacheOptions(maxCallers))
  const unknownKeys = new LRUCache<string, number>({ max: maxUnknown })
  const pendingLookups = new Map<string, Promise<FoundKey | null>>()

  const queryCaller = async (id: string, hash: Buffer): Promise<FoundKey | null> => {
    // Read before the query, so that the result is at least as new as this version.
    const version = watch.version()
    const queriedAtMs = monotonicMs()
    const found = await findCaller(hash)
    if (found) {
      callers.set(id, { found, version, queriedAtMs })
      unknownKeys.delete(id)
    } else {
      callers.delete(id)
      unknownKeys.set(id, queriedAtMs)
    }
    return found
  }

  const lookUpOnce = (id: string, hash: Buffer): Promise<FoundKey | null> => {
    const running = pendingLookups.get(id)
    if (running) return running
    const started = queryCaller(id, hash).finally(() => pendingLookups.delete(id))
    pendingLookups.set(id, started)
    return started
  }

  const isCurrent = ({ version, queriedAtMs }: Cached): boolean =>
    version === watch.version() &&
    monotonicMs() - queriedAtMs < (version === null ? unwatchedCallerMs : callerMs)

  const find = async (text: string): Promise<FoundKey | null> => {
    const key = apiKeyForm.parse(text)
    if (key === null) return null
    const hash = apiKeyForm.hash(key)
    const id = hash.toString('base64')
    const cached = callers.get(id)
    if (cached && isCurrent(cached)) return cached.found
    const unknownSinceMs = unknownKeys.get(id)
    if (unknownSinceMs !== undefined && monotonicMs() - unknownSinceMs < unknownMs) return null
    return lookUpOnce(id, hash)
  }

  return {
    async byKey(text, address) {
      const found = await find(text)
      if (!found) return null
      const { caller, expiresAtMs, worksFrom } = found
      // Expiry and address are checked at each use, not cached, so that a key ends exactly with its last millisecond.
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
