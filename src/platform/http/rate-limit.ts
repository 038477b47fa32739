import { LRUCache } from 'lru-cache'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import { addressSubject } from '../../kernel/ip-address.ts'
import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import type { Caller, Directory, FinanceCaller, FinanceDirectory } from './auth.ts'
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
 * The caller of a request.
 * @throws unauthorized if there is no key, the key does not work (from this address), or there are two different keys
 */
const authenticate = async (directory: Directory, headers: KeyHeaders, address: string): Promise<Caller> => {
  const caller = await directory.byKey(apiKeyOf(headers), address)
  // One message for all cases: a client with a found or guessed key must learn nothing about it.
  if (caller === null)
    throw refuse(
      'unauthorized',
      'the API key does not work: it is unknown, revoked or expired, or is not for use from this address',
    )
  return caller
}

/**
 * The finance caller of a request.
 * @throws unauthorized if the token is missing, unknown, revoked or expired, or is an API key
 */
const authenticateFinance = async (
  directory: FinanceDirectory,
  headers: KeyHeaders,
): Promise<FinanceCaller> => {
  const token = apiKeyOf(headers, 'no finance token: send it as Authorization: Bearer <FINANCE_TOKEN>')
  const reader = await directory.byToken(token)
  if (reader === null)
    throw refuse(
      'unauthorized',
      'a finance token is needed here, and this is none that works; no API key is one',
    )
  return reader
}

/**
 * The key of a request, from `X-API-Key` or `Authorization: Bearer` (docs/http-api.md, "Authentication").
 * @param missing the message for a request without a key
 * @throws unauthorized if there is no key, or if the two headers carry different keys
 */
export const apiKeyOf = (
  headers: KeyHeaders,
  missing = 'no API key: send it as X-API-Key or as Authorization: Bearer <API_KEY>',
): string => {
  const apiKeyHeader = headers['x-api-key']
  const { authorization } = headers
  const fromBearer = authorization === undefined ? undefined : bearer.exec(authorization)?.[1]
  if (apiKeyHeader === undefined && authorization !== undefined && fromBearer === undefined)
    throw refuse('unauthorized', 'the Authorization header must be "Bearer <API_KEY>"')
  if (apiKeyHeader !== undefined && fromBearer !== undefined && apiKeyHeader !== fromBearer)
    throw refuse('unauthorized', 'X-API-Key and Authorization carry two different keys; send one')
  const key = apiKeyHeader ?? fromBearer
  if (key === undefined || key === '' || typeof key !== 'string') throw refuse('unauthorized', missing)
  return key
}

type KeyHeaders = {
  readonly 'x-api-key'?: string | string[] | undefined
  readonly authorization?: string | undefined
}

const bearer = /^Bearer +(\S+)$/i

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
