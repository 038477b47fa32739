import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { createRateLimiter } from '../../platform/http/rate-limit.ts'

/** What Postgres says of something, held for a moment, and for longer while it does not answer. */
export type CachedLookup<Key extends string, Value> = {
  /**
   * As of at most a second ago, or of half a minute while Postgres does not answer; null: there is none. Rejects when it
   * does not answer and nothing is held. Look-ups of one key that come at once share a query.
   * @param sinceMs by the monotonic clock: what was read before is read again; left out: anything that is held will do
   */
  find(key: Key, sinceMs?: number): Promise<Value | null>
  /** Holds what was read; `askedMs` is when, by the monotonic clock. */
  store(key: Key, value: Value | null, askedMs: number): void
}

const freshMs = 1_000
/** The leases of a gateway without Postgres last as long. */
const staleMs = 30_000

export const createCachedLookup = <Key extends string, Value extends object>(deps: {
  readonly read: (key: Key) => Promise<Value | null>
  readonly max: number
  readonly monotonicMs: MonotonicClock
}): CachedLookup<Key, Value> => {
  const { read, monotonicMs } = deps
  const held = new LRUCache<Key, { readonly value: Value | null; readonly askedMs: number }>({
    max: deps.max,
  })
  const reading = new Map<Key, { readonly value: Promise<Value | null>; readonly askedMs: number }>()

  const store = (key: Key, value: Value | null, askedMs: number): void => {
    held.set(key, { value, askedMs })
  }

  const ask = async (key: Key, askedMs: number): Promise<Value | null> => {
    const value = await read(key)
    store(key, value, askedMs)
    return value
  }
  /** The query that runs, where it began late enough, or a new one. */
  const shared = (key: Key, sinceMs: number): Promise<Value | null> => {
    const before = reading.get(key)
    if (before && before.askedMs >= sinceMs) return before.value
    const askedMs = monotonicMs()
    const running = { value: ask(key, askedMs), askedMs }
    reading.set(key, running)
    const over = (): void => {
      if (reading.get(key) === running) reading.delete(key)
    }
    running.value.then(over, over)
    return running.value
  }

  return {
    store,
    find: async (key, sinceMs = Number.NEGATIVE_INFINITY) => {
      const found = held.get(key)
      const ageMs = found ? monotonicMs() - found.askedMs : Number.POSITIVE_INFINITY
      if (found && ageMs < freshMs && found.askedMs >= sinceMs) return found.value
      try {
        return await shared(key, sinceMs)
      } catch (error) {
        if (found && ageMs < staleMs) return found.value
        throw error
      }
    },
  }
}

/** Slows down whoever tries credentials, by the address that they come from; right ones are never slowed down. */
export type Throttle = {
  /**
   * Counts a wrong attempt and resolves when it may be answered.
   * @param signal ends the wait, when the gateway stops
   */
  wrong(source: string, signal: AbortSignal): Promise<void>
}

/** So many wrong attempts of one address are answered at once, then one a second. */
const rate = { burst: 20, perSecond: 1 }
const longestWaitMs = 10_000
/** Answers that wait, in all: beyond that the answer comes at once, since memory is bounded. */
const maxWaiting = 2_000

export const createThrottle = (monotonicMs: MonotonicClock): Throttle => {
  const limiter = createRateLimiter(rate, monotonicMs)
  let waiting = 0
  return {
    wrong: async (source, signal) => {
      const waitMs = Math.min(longestWaitMs, limiter.take(source) * 1_000)
      if (waitMs === 0 || waiting >= maxWaiting) return
      waiting += 1
      await sleep(waitMs, undefined, { signal }).catch(() => undefined) // the gateway stops: the answer goes out now
      waiting -= 1
    },
  }
}
