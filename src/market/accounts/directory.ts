import { LRUCache } from 'lru-cache'
import type { Watch } from '../../../projections/engine/changes.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { growingTo } from '../../kernel/growing.ts'
import type { KeyId } from '../../kernel/ids.ts'
import type { Directory } from '../../platform/http/auth.ts'
import { refuseUntil } from '../../platform/http/errors.ts'
import { createFindCaller, type FindCallerDeps, type FoundKey } from './find-caller.ts'
import { hashKey, parseKey } from './key.ts'

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
  const callers = new LRUCache<string, Cached>(growingTo(maxCallers))
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
        if (problem !== null) throw refuseUntil('overloaded', problem, 5)
        if (clock() >= expiresAtMs) return null
      }
      if (worksFrom !== null && !worksFrom(address)) return null
      onUse(caller.keyId)
      return caller
    },
  }
}
