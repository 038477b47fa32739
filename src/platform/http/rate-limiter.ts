import { LRUCache } from 'lru-cache'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'

/** A token bucket: `burst` requests at once, `perSecond` on average. Whole numbers of at least 1. */
export type Rate = { readonly burst: number; readonly perSecond: number }

/**
 * When the bucket is full again, in thousandths of a token since the epoch of the clock. Undefined: it is full.
 * Thousandths of a token keep the arithmetic in whole numbers, so that it does not drift.
 */
export type GcraState = number | undefined

type GcraResult =
  | { readonly accepted: true; readonly state: number }
  /** Whole milliseconds until the same request is accepted, at least 1. The state does not change. */
  | { readonly accepted: false; readonly waitMs: number }

/**
 * The generic cell rate algorithm (ITU-T I.371): one number per subject, no timer, exact waiting times. In any window
 * of t seconds it accepts at most burst + perSecond × t requests.
 * @param nowMs whole milliseconds of a `MonotonicClock`
 */
export const gcra = (state: GcraState, nowMs: number, cost: number, rate: Rate): GcraResult => {
  const now = nowMs * rate.perSecond
  const next = Math.max(state ?? now, now) + cost * 1000
  const excess = next - rate.burst * 1000 - now
  if (excess <= 0) return { accepted: true, state: next }
  return { accepted: false, waitMs: Math.ceil(excess / rate.perSecond) }
}

/** The result of counting a request. */
export type Taken = {
  /** 0 if the request is accepted, else the seconds to wait. */
  readonly waitS: number
  /** So many further requests of this cost are accepted at once. */
  readonly remaining: number
  /** Seconds until the bucket is full. */
  readonly fullAfterS: number
}

export type RateLimiter = {
  /** The parameters of `RateLimit-Policy`, for requests of the default cost. */
  readonly policy: string
  /** Counts one request of a subject. It takes `cost` tokens: default 1, at most the burst. */
  count(subject: string, cost?: number): Taken
  /** `waitS` of `count`. */
  take(subject: string, cost?: number): number
}

/** The parameters of `RateLimit-Policy`: requests at once, and the seconds in which an empty bucket fills. */
export const policyOf = ({ burst, perSecond }: Rate, cost = 1): string =>
  `q=${Math.floor(burst / cost)};w=${Math.ceil(burst / perSecond)}`

/** @param missing what the bucket lacks, in thousandths of a token */
export const takenOf = ({ burst, perSecond }: Rate, missing: number, waitMs: number, cost = 1): Taken => ({
  waitS: waitMs / 1000,
  remaining: Math.floor((burst * 1000 - missing) / (cost * 1000)),
  fullAfterS: missing / (perSecond * 1000),
})

/** Subjects stored at once. The least recently used one is dropped, which resets its limit. */
const maxSubjects = 100_000

/** A limiter for this process only. */
export const createRateLimiter = (rate: Rate, monotonicMs: MonotonicClock): RateLimiter => {
  const states = new LRUCache<string, number>(growingCacheOptions(maxSubjects))
  const count: RateLimiter['count'] = (subject, cost = 1) => {
    const before = states.get(subject)
    const nowMs = Math.floor(monotonicMs())
    const result = gcra(before, nowMs, cost, rate)
    if (result.accepted) states.set(subject, result.state)
    const missing = Math.max(0, (result.accepted ? result.state : before!) - nowMs * rate.perSecond)
    return takenOf(rate, missing, result.accepted ? 0 : result.waitMs, cost)
  }
  return { policy: policyOf(rate), count, take: (subject, cost) => count(subject, cost).waitS }
}

/** Counts a request against a separate limit, in addition to the limits per address and per key. */
export type RouteLimit = {
  readonly per: 'address' | 'account'
  /** The parameters of its `RateLimit-Policy`. */
  readonly policy: string
  /** Counts the request. */
  take(subject: string): Taken | Promise<Taken>
}

/** A limit of a route in this process. */
export const createRouteLimit = (
  per: RouteLimit['per'],
  rate: Rate,
  monotonicMs: MonotonicClock,
): RouteLimit => {
  const { policy, count } = createRateLimiter(rate, monotonicMs)
  return { per, policy, take: (subject) => count(subject) }
}
