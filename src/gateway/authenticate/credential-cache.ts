import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { createRateLimiter } from '../../platform/http/rate-limit.ts'

/** Caches rows of Postgres for a second, and longer while Postgres does not answer. */
export type CachedLookup<Key extends string, Value> = {
  /**
   * The value as of at most a second ago, or of half a minute while Postgres does not answer; null: there is none.
   * Rejects when Postgres does not answer and nothing is cached. Concurrent calls for one key share a query.
   * @param sinceMs by the monotonic clock: values read before are read again. Default: any fresh cached value is
   * returned
   */
  find(key: Key, sinceMs?: number): Promise<Value | null>
  /** Caches a value; `requestedMs` is the start of its query, by the monotonic clock. */
  store(key: Key, value: Value | null, requestedMs: number): void
}

const freshMs = 1_000
/** As long as leases last while Postgres does not answer. */
const staleMs = 30_000

export const createCachedLookup = <Key extends string, Value extends object>(deps: {
  readonly read: (key: Key) => Promise<Value | null>
  readonly max: number
  readonly monotonicMs: MonotonicClock
}): CachedLookup<Key, Value> => {
  const { read, monotonicMs } = deps
  const cachedValues = new LRUCache<Key, { readonly value: Value | null; readonly requestedMs: number }>({
    max: deps.max,
  })
  const runningQueries = new Map<
    Key,
    { readonly value: Promise<Value | null>; readonly requestedMs: number }
  >()

  const store = (key: Key, value: Value | null, requestedMs: number): void => {
    cachedValues.set(key, { value, requestedMs })
  }

  const readAndStore = async (key: Key, requestedMs: number): Promise<Value | null> => {
    const value = await read(key)
    store(key, value, requestedMs)
    return value
  }
  /** The running query if it began at `sinceMs` or later, else a new one. */
  const sharedQuery = (key: Key, sinceMs: number): Promise<Value | null> => {
    const existing = runningQueries.get(key)
    if (existing && existing.requestedMs >= sinceMs) return existing.value
    const requestedMs = monotonicMs()
    const started = { value: readAndStore(key, requestedMs), requestedMs }
    runningQueries.set(key, started)
    const removeIfCurrent = (): void => {
      if (runningQueries.get(key) === started) runningQueries.delete(key)
    }
    started.value.then(removeIfCurrent, removeIfCurrent)
    return started.value
  }

  return {
    store,
    find: async (key, sinceMs = Number.NEGATIVE_INFINITY) => {
      const cachedValue = cachedValues.get(key)
      const ageMs = cachedValue ? monotonicMs() - cachedValue.requestedMs : Number.POSITIVE_INFINITY
      if (cachedValue && ageMs < freshMs && cachedValue.requestedMs >= sinceMs) return cachedValue.value
      try {
        return await sharedQuery(key, sinceMs)
      } catch (error) {
        if (cachedValue && ageMs < staleMs) return cachedValue.value
        throw error
      }
    },
  }
}

/** Delays wrong credentials by their source address. Correct credentials are never delayed. */
export type Throttle = {
  /**
   * Counts a wrong attempt and resolves when it may be answered.
   * @param signal ends the wait when the gateway stops
   */
  wrong(source: string, signal: AbortSignal): Promise<void>
}

/** The first 20 wrong attempts of an address are answered at once, then one per second. */
const rate = { burst: 20, perSecond: 1 }
const longestWaitMs = 10_000
/** Delayed answers in total. Further ones are not delayed, to bound the memory. */
const maxDelayed = 2_000

export const createThrottle = (monotonicMs: MonotonicClock): Throttle => {
  const limiter = createRateLimiter(rate, monotonicMs)
  let delayedCount = 0
  return {
    wrong: async (source, signal) => {
      const waitMs = Math.min(longestWaitMs, limiter.take(source) * 1_000)
      if (waitMs === 0 || delayedCount >= maxDelayed) return
      delayedCount += 1
      await sleep(waitMs, undefined, { signal }).catch(() => undefined) // the gateway stops: the answer is sent now
      delayedCount -= 1
    },
  }
}
