import { LRUCache } from 'lru-cache'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import {
  authenticate,
  authenticateFinance,
  type Caller,
  type Directory,
  type FinanceCaller,
  type FinanceDirectory,
} from './auth.ts'
import { addressSubject } from './client-address.ts'
import { refuse, refuseWithRetryAfter } from './errors.ts'
import type { HttpRequest } from './exchange.ts'
import type { Route } from './route.ts'

/** The limits for every request. Null: limits are switched off. */
export type Limits = { readonly perAddress: RateLimiter; readonly perKey: RateLimiter } | null

/** @throws rate_limited if the address is over its limit */
export const admitAddress = (limits: Limits, address: string): void => {
  const waitS = limits?.perAddress.take(addressSubject(address)) ?? 0
  if (waitS > 0) throw refuseWithRetryAfter('rate_limited', `too many requests from ${address}`, waitS)
}

const admitOwnLimit = async (route: Route, per: 'address' | 'account', subject: string): Promise<void> => {
  if (route.limit?.per !== per) return
  const waitS = await route.limit.take(subject)
  if (waitS > 0)
    throw refuseWithRetryAfter('rate_limited', `too many requests of ${route.operationId}`, waitS)
}

const admitScope = ({ access }: Route, caller: Caller): void => {
  if (access === 'any-key' || access === 'public' || caller.scopes.includes(access as Scope)) return
  throw refuse(
    'missing_scope',
    `the key lacks the scope "${access}"; it carries: ${caller.scopes.join(', ') || 'none'}`,
  )
}

/**
 * Like `admit`, for a route with the access `finance`: 401 and the limit per token.
 * @throws unauthorized, rate_limited
 */
export const admitFinance = async (
  request: HttpRequest,
  directory: FinanceDirectory,
  limits: Limits,
): Promise<FinanceCaller> => {
  const reader = await authenticateFinance(directory, request.headers)
  const waitS = limits?.perKey.take(reader.tokenId) ?? 0
  if (waitS > 0) throw refuseWithRetryAfter('rate_limited', 'too many requests with this token', waitS)
  return reader
}

/**
 * The checks of a known route before its body is read: 401, limit per key, `missing_scope`, `account_blocked`, the
 * operation's own limit.
 * @returns the caller. Null on a public route, whose key is ignored (docs/http-api.md, "Authentication"), and on a
 *   finance route
 * @throws unauthorized, rate_limited, missing_scope, account_blocked
 */
export const admit = async (
  route: Route,
  request: HttpRequest,
  directory: Directory,
  limits: Limits,
): Promise<Caller | null> => {
  if (limits !== null) await admitOwnLimit(route, 'address', addressSubject(request.exchange.address))
  if (route.access === 'public' || route.access === 'finance') return null
  const caller = await authenticate(directory, request.headers, request.exchange.address)
  const waitS = limits?.perKey.take(caller.keyId) ?? 0
  if (waitS > 0) throw refuseWithRetryAfter('rate_limited', 'too many requests with this key', waitS)
  admitScope(route, caller)
  if (route.writes && caller.blocked)
    throw refuse('account_blocked', 'the account is blocked: it may read, not write')
  if (limits !== null) await admitOwnLimit(route, 'account', caller.accountId)
  return caller
}

/** A token bucket: `burst` requests at once, `perSecond` on average. Whole numbers of at least 1. */
export type Rate = { readonly burst: number; readonly perSecond: number }

/**
 * When the bucket is full again, in thousandths of a token since the epoch of the clock. Undefined: it is full.
 * Thousandths of a token keep the arithmetic in whole numbers, so that it does not drift.
 */
export type GcraState = number | undefined

export type GcraResult =
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

export type RateLimiter = {
  /**
   * Counts one request of a subject. It takes `cost` tokens: default 1, at most the burst.
   * @returns 0 if the request is accepted, else the seconds to wait
   */
  take(subject: string, cost?: number): number
}

/** Subjects stored at once. The least recently used one is dropped, which resets its limit. */
const maxSubjects = 100_000

/** A limiter for this process only. */
export const createRateLimiter = (rate: Rate, monotonicMs: MonotonicClock): RateLimiter => {
  const states = new LRUCache<string, number>(growingCacheOptions(maxSubjects))
  return {
    take(subject, cost = 1) {
      const result = gcra(states.get(subject), Math.floor(monotonicMs()), cost, rate)
      if (!result.accepted) return result.waitMs / 1000
      states.set(subject, result.state)
      return 0
    },
  }
}
