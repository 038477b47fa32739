import { setTimeout as sleep } from 'node:timers/promises'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { createRateLimiter } from '../../platform/http/rate-limit.ts'

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
