import { LRUCache } from 'lru-cache'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { growingTo } from '../../kernel/growing.ts'

/** A token bucket: `burst` requests at once, `perSecond` in the long run. Whole numbers of at least 1. */
export type Rate = { readonly burst: number; readonly perSecond: number }

/**
 * When the bucket is full again, in thousandths of a token since the epoch of the clock; undefined: it is full.
 * Thousandths of a token keep the arithmetic in whole numbers, so that nothing drifts.
 */
export type GcraState = number | undefined

export type GcraResult =
  | { readonly accepted: true; readonly state: number }
  /** Whole milliseconds until the same request would be accepted, at least 1; the state stays. */
  | { readonly accepted: false; readonly waitMs: number }

/**
 * The generic cell rate algorithm (ITU-T I.371): one number a subject, no timer, exact waiting times. In any window
 * of t seconds at most burst + perSecond × t requests are accepted.
 * @param nowMs whole milliseconds of a `MonotonicClock`
 */
export const gcra = (state: GcraState, nowMs: number, cost: number, rate: Rate): GcraResult => {
  const now = nowMs * rate.perSecond
  const next = Math.max(state ?? now, now) + cost * 1000
  const excess = next - rate.burst * 1000 - now
  if (excess <= 0) return { accepted: true, state: next }
  return { accepted: false, waitMs: Math.ceil(excess / rate.perSecond) }
}

export type RateLimiter = {
  /**
   * Counts one request of a subject, which takes `cost` tokens: 1 unless said otherwise, at most the burst.
   * @returns 0 when accepted, else the seconds to wait
   */
  take(subject: string, cost?: number): number
}

/** Subjects remembered at once; the one that was quiet for longest is forgotten, which can only favour it. */
const maxSubjects = 100_000

/** A limiter of this process. */
export const createRateLimiter = (rate: Rate, monotonicMs: MonotonicClock): RateLimiter => {
  const states = new LRUCache<string, number>(growingTo(maxSubjects))
  return {
    take(subject, cost = 1) {
      const result = gcra(states.get(subject), Math.floor(monotonicMs()), cost, rate)
      if (!result.accepted) return result.waitMs / 1000
      states.set(subject, result.state)
      return 0
    },
  }
}
