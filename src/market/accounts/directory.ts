import { LRUCache } from 'lru-cache'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { growingTo } from '../../kernel/growing.ts'
import type { KeyId } from '../../kernel/ids.ts'
import type { Directory } from '../../platform/http/auth.ts'
import { refuseUntil } from '../../platform/http/errors.ts'
import { createFindCaller, type FindCallerDeps, type FoundKey } from './find-caller.ts'
import { hashKey, parseKey } from './key.ts'

export type DirectoryOptions = FindCallerDeps & {
  readonly clock: Clock
  /** What is wrong with this process's clock, by which no key is found to be expired or not; else null. */
  readonly clockProblem: () => string | null
  /** Told of each request that a key lets in. */
  readonly onUse: (keyId: KeyId) => void
  /** Default `performance.now`. */
  readonly monotonicMs?: MonotonicClock
}

/**
 * How long an answer is used. With what the read models lag, a revocation and a block act within a second on every
 * process. Past half of it a caller is looked up again beside its requests, so that a busy key never waits.
 */
const callerMs = 500
const refreshMs = 250
/** How long refreshes gather, so that many busy keys share a query. */
const gatherMs = 80
/** A key may be tried just before it is issued. */
const unknownMs = 100
/** Callers that are kept. */
const maxCallers = 20_000
const maxUnknown = 1_000

type Kept = { readonly found: FoundKey; readonly askedMs: number }

/**
 * Looks API keys up, without a query for a key that was asked for lately; requests that come at once share one query.
 * Keys are kept by their hash. A key with a wrong checksum costs no look-up, and unknown keys have a cache of their own, so
 * that sending many of them drives no caller out.
 */
export const createDirectory = ({
  monotonicMs = () => performance.now(),
  clock,
  clockProblem,
  onUse,
  ...deps
}: DirectoryOptions): Directory => {
  const findCaller = createFindCaller(deps)
  const callers = new LRUCache<string, Kept>(growingTo(maxCallers))
  const unknown = new LRUCache<string, number>({ max: maxUnknown })
  const lookUps = new Map<string, Promise<FoundKey | null>>()

  const ask = async (id: string, hash: Buffer): Promise<FoundKey | null> => {
    // What is found is at least as new as this moment.
    const askedMs = monotonicMs()
    const found = await findCaller(hash)
    if (found) {
      callers.set(id, { found, askedMs })
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

  let refreshes: Map<string, Buffer> | null = null
  const refresh = (id: string, hash: Buffer): void => {
    if (refreshes === null) {
      const gathering = new Map<string, Buffer>()
      refreshes = gathering
      setTimeout(() => {
        refreshes = null
        // A refresh that fails answers nobody: once the kept caller is too old, a request looks it up and meets the error.
        for (const [each, its] of gathering) lookUp(each, its).catch(() => undefined)
      }, gatherMs).unref()
    }
    refreshes.set(id, hash)
  }

  const find = async (text: string): Promise<FoundKey | null> => {
    const key = parseKey(text)
    if (key === null) return null
    const hash = hashKey(key)
    const id = hash.toString('base64')
    const nowMs = monotonicMs()
    const kept = callers.get(id)
    const ageMs = kept ? nowMs - kept.askedMs : Number.POSITIVE_INFINITY
    if (kept && ageMs < callerMs) {
      if (ageMs >= refreshMs) refresh(id, hash)
      return kept.found
    }
    const missedMs = unknown.get(id)
    if (missedMs !== undefined && nowMs - missedMs < unknownMs) return null
    return lookUp(id, hash)
  }

  return {
    async byKey(text, address) {
      const found = await find(text)
      if (!found) return null
      const { caller, expiresAtMs, worksFrom } = found
      // What is kept is held to the time and the address of each use, so a key ends with its last millisecond.
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
