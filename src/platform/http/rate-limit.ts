import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { addressSubject } from '../../kernel/ip-address.ts'
import type { KeyScope } from '../../kernel/scopes.ts'
import { createTally, type Tally } from '../../kernel/tally.ts'
import type { Caller, Directory, FinanceCaller, FinanceDirectory } from './auth.ts'
import { type ApiError, refuse, refuseWithRetryAfter } from './errors.ts'
import type { Exchange, HttpReply, HttpRequest } from './exchange.ts'
import type { HttpMetrics } from './gauges.ts'
import type { RateLimiter, RouteLimit, Taken } from './rate-limiter.ts'
import type { ConcurrencyLimit, Route } from './route.ts'

/** The limits for every request. Null: limits are switched off. */
export type Limits = {
  readonly perAddress: Pick<RateLimiter, 'take'>
  readonly perKey: Omit<RateLimiter, 'take'>
} | null

/** @throws rate_limited if the address is over its limit */
export const admitAddress = (limits: Limits, address: string): void => {
  const waitS = limits?.perAddress.take(addressSubject(address)) ?? 0
  if (waitS > 0) throw refuseWithRetryAfter('rate_limited', `too many requests from ${address}`, waitS)
}

/**
 * Adds a limit to the fields `RateLimit-Policy` and `RateLimit` of a response
 * (https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10).
 * @throws rate_limited if the request is over the limit
 */
const report = (
  reply: HttpReply,
  name: string,
  { policy }: Pick<RouteLimit, 'policy'>,
  { waitS, remaining, fullAfterS }: Taken,
  message: string,
): void => {
  const add = (field: string, item: string): void => {
    const before = reply.getHeader(field)
    reply.header(field, before === undefined ? item : `${before}, ${item}`)
  }
  add('ratelimit-policy', `"${name}";${policy}`)
  add('ratelimit', `"${name}";r=${remaining};t=${Math.ceil(fullAfterS)}`)
  if (waitS > 0) throw refuseWithRetryAfter('rate_limited', message, waitS)
}

const admitKey = (limits: Limits, reply: HttpReply, what: 'key' | 'token', id: string): void => {
  if (limits !== null)
    report(reply, what, limits.perKey, limits.perKey.count(id), `too many requests with this ${what}`)
}

/**
 * The checks of a known route before its body is read: 401, limit per key, `missing_scope`, `account_blocked`, the
 * operation's own limit.
 * @returns the caller. Null on a public route, whose key is ignored (docs/reference/api.md, "Authentication"), and on a
 *   finance route
 * @throws unauthorized, rate_limited, missing_scope, account_blocked
 */
export const admit = async (
  route: Route,
  request: HttpRequest,
  reply: HttpReply,
  directory: Directory,
  limits: Limits,
): Promise<Caller | null> => {
  const admitRoute = async (limit: RouteLimit, subject: string): Promise<void> =>
    report(reply, route.operationId, limit, await limit.take(subject), tooMany(route))
  if (limits !== null && route.limit?.per === 'address')
    await admitRoute(route.limit, addressSubject(request.exchange.address))
  if (route.access === 'public' || route.access === 'finance') return null
  const caller = await authenticate(directory, request.headers, request.exchange.address)
  admitKey(limits, reply, 'key', caller.keyId)
  admitScope(route, caller)
  if (route.writes && caller.blocked)
    throw refuse('account_blocked', 'the account is blocked: it may read, not write')
  if (limits !== null && route.limit?.per === 'account' && !(await isRepeat(route, request, caller)))
    await admitRoute(route.limit, caller.accountId)
  return caller
}

/** A repeat whose result is known starts nothing. */
const isRepeat = async (
  route: Route,
  { headers, exchange }: HttpRequest,
  { accountId }: Caller,
): Promise<boolean> =>
  (headers['x-request-id'] ?? headers['idempotency-key']) !== undefined &&
  (await route.hasResult?.(accountId, exchange.requestId)) === true

/**
 * Like `admit`, for a route with the access `finance`: 401 and the limit per token.
 * @throws unauthorized, rate_limited
 */
export const admitFinance = async (
  request: HttpRequest,
  reply: HttpReply,
  directory: FinanceDirectory,
  limits: Limits,
): Promise<FinanceCaller> => {
  const reader = await authenticateFinance(directory, request.headers)
  admitKey(limits, reply, 'token', reader.tokenId)
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
    throw refuse('unauthorized', 'this endpoint needs a valid finance token; API keys are not accepted')
  return reader
}

/**
 * The key of a request, from `X-API-Key` or `Authorization: Bearer` (docs/reference/api.md, "Authentication").
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

const tooMany = ({ operationId }: Route): string =>
  `too many requests of ${operationId}; RateLimit-Policy names the limit`

/** The scopes that may call an operation: a key needs one of them. Null: any key may. `read` may call every GET. */
export const acceptedScopes = ({
  access,
  method,
}: Pick<Route, 'access' | 'method'>): readonly KeyScope[] | null => {
  if (access !== 'buy' && access !== 'scrape') return null
  return method === 'GET' ? [access, 'read'] : [access]
}

const admitScope = (route: Route, { scopes }: Caller): void => {
  const accepted = acceptedScopes(route)
  if (accepted === null || accepted.some((scope) => scopes.includes(scope))) return
  throw refuse(
    'missing_scope',
    `the key lacks the scope ${accepted.map((scope) => `"${scope}"`).join(' or ')}; it carries: ${scopes.join(', ') || 'none'}`,
  )
}

export type PendingBodyLimits = {
  /** Bodies that may be in transit at once, to all routes without slots of their own. */
  readonly total: number
  /** Those of one account, or of one address if the account is not known. */
  readonly perSender: number
  /** Their total size once they are complete. The routes with slots of their own have as much again. */
  readonly bytes: number
}

export const defaultPendingBodyLimits: PendingBodyLimits = {
  total: 1_000,
  perSender: 100,
  bytes: 64 * 1024 * 1024,
}

/** The bodies in transit. Such a request has no in-flight slot, because its client decides how long the body takes. */
type PendingBodies = {
  /**
   * @param bytes the maximum size of the body
   * @param cut ends the body with a refusal if its room is needed
   * @throws rate_limited or overloaded if the sender is at its limit
   */
  enter(exchange: Exchange, bytes: number, cut: (refusal: ApiError) => void): void
  /** The body is complete, or will never be. */
  leave(exchange: Exchange): void
}

type Body = { readonly sender: string; readonly bytes: number; cut(refusal: ApiError): void }

/** `bodies` has the oldest first. */
type Pool = {
  readonly limits: PendingBodyLimits
  readonly bodies: Map<Exchange, Body>
  readonly bySender: Tally<string>
  bytes: number
}

const poolOf = (limits: PendingBodyLimits): Pool => ({
  limits,
  bodies: new Map(),
  bySender: createTally(),
  bytes: 0,
})

const tooManyError = (exchange: Exchange, count: number): ApiError =>
  exchange.caller === null
    ? refuseWithRetryAfter('overloaded', 'too many bodies are on their way from this address', 1)
    : refuseWithRetryAfter(
        'rate_limited',
        `${count} bodies of this account are on their way, which is as many as may be; finish some`,
        1,
      )

const tooSlowError = (): ApiError =>
  refuseWithRetryAfter(
    'overloaded',
    'the body was on its way for too long while the service had others to read',
    1,
  )

/**
 * At the limit, a new body ends the body that has been in transit longest. So slow bodies, from however many accounts
 * and addresses, never block a quick one.
 */
export const createPendingBodies = (limits: PendingBodyLimits): PendingBodies => {
  const shared = poolOf(limits)
  const ownByLimit = new Map<ConcurrencyLimit, Pool>()

  const poolFor = ({ route }: Exchange): Pool => {
    const atOnce = route?.route.atOnce
    if (atOnce === undefined) return shared
    const { total, perAddress } = atOnce
    const pool = ownByLimit.get(atOnce) ?? poolOf({ total, perSender: perAddress, bytes: limits.bytes })
    ownByLimit.set(atOnce, pool)
    return pool
  }

  const remove = (pool: Pool, exchange: Exchange, { sender, bytes }: Body): void => {
    pool.bodies.delete(exchange)
    pool.bySender.remove(sender)
    pool.bytes -= bytes
  }

  const makeRoom = (pool: Pool, bytes: number): void => {
    for (const [exchange, body] of pool.bodies) {
      if (pool.bodies.size < pool.limits.total && pool.bytes + bytes <= pool.limits.bytes) return
      remove(pool, exchange, body)
      body.cut(tooSlowError())
    }
  }

  return {
    enter: (exchange, bytes, cut) => {
      const pool = poolFor(exchange)
      const sender = exchange.caller?.accountId ?? addressSubject(exchange.address)
      if (pool.bySender.of(sender) >= pool.limits.perSender)
        throw tooManyError(exchange, pool.limits.perSender)
      makeRoom(pool, bytes)
      pool.bodies.set(exchange, { sender, bytes, cut })
      pool.bySender.add(sender)
      pool.bytes += bytes
    },
    leave: (exchange) => {
      const pool = poolFor(exchange)
      const body = pool.bodies.get(exchange)
      if (body !== undefined) remove(pool, exchange, body)
    },
  }
}

/**
 * Runs one synchronous piece of work of a request, during which all other requests wait. Stores the longest duration in
 * the exchange.
 * @returns the result of `run`
 * @throws the error of `run`
 */
export type MeasureEventLoopDelay = <Result>(exchange: Exchange, run: () => Result) => Result

export const createEventLoopDelayMeter =
  (monotonicMs: MonotonicClock): MeasureEventLoopDelay =>
  (exchange, run) => {
    const startMs = monotonicMs()
    try {
      return run()
    } finally {
      exchange.eventLoopDelayMs = Math.max(exchange.eventLoopDelayMs, monotonicMs() - startMs)
    }
  }

/**
 * The requests in progress. A request has a slot while the service works for it: from its headers until its answer,
 * except while its body is in transit (`createPendingBodies`). The slot is free before the client has read the answer,
 * so that clients which never send or never read cannot take every slot. If the client disconnects, the slot is
 * released at once or, if a handler is running, when the handler ends.
 */
type InFlight = {
  /** @throws overloaded if all slots are taken */
  enter(exchange: Exchange): void
  /**
   * Counts a request in progress for its account, across all keys and addresses of the account.
   * @throws rate_limited if the account has its share of the slots
   */
  enterFor(exchange: Exchange, accountId: AccountId): void
  /** Releases the slot. Further calls have no effect. */
  leave(exchange: Exchange): void
}

type RequestSlots = { readonly atOnce: ConcurrencyLimit; taken: number; readonly byAddress: Tally<string> }

const createRequestSlots = (atOnce: ConcurrencyLimit): RequestSlots => ({
  atOnce,
  taken: 0,
  byAddress: createTally(),
})

type InFlightLimits = {
  /** Slots of all routes without slots of their own. One address may take all of them. */
  readonly total: number
  /** Requests of one account in progress at once, on all routes. */
  readonly perAccount: number
}

export const createInFlight = ({ total, perAccount }: InFlightLimits, metrics: HttpMetrics): InFlight => {
  const shared = createRequestSlots({ total, perAddress: Number.POSITIVE_INFINITY })
  const ownByLimit = new Map<ConcurrencyLimit, RequestSlots>()
  const byAccount = createTally<AccountId>()

  const slotsOf = ({ route }: Exchange): RequestSlots => {
    const atOnce = route?.route.atOnce
    if (atOnce === undefined) return shared
    const requestSlots = ownByLimit.get(atOnce) ?? createRequestSlots(atOnce)
    ownByLimit.set(atOnce, requestSlots)
    return requestSlots
  }

  const count = (requestSlots: RequestSlots, { address, connection }: Exchange, change: 1 | -1): void => {
    requestSlots.taken += change
    if (change === 1) connection.markBusy()
    else connection.markIdle()
    if (requestSlots === shared) metrics.inFlight(requestSlots.taken)
    else if (change === 1) requestSlots.byAddress.add(addressSubject(address))
    else requestSlots.byAddress.remove(addressSubject(address))
  }

  return {
    enter: (exchange) => {
      const requestSlots = slotsOf(exchange)
      const { atOnce, byAddress } = requestSlots
      if (
        requestSlots.taken >= atOnce.total ||
        byAddress.of(addressSubject(exchange.address)) >= atOnce.perAddress
      )
        throw refuseWithRetryAfter('overloaded', 'the service is answering as many requests as it can', 1)
      count(requestSlots, exchange, 1)
      exchange.hasPlace = true
    },
    enterFor: (exchange, accountId) => {
      if (!exchange.hasPlace) return
      if (byAccount.of(accountId) >= perAccount)
        throw refuseWithRetryAfter(
          'rate_limited',
          `${perAccount} requests of this account are in work, which is as many as may be; await the answers of some`,
          1,
        )
      byAccount.add(accountId)
      exchange.countedFor = accountId
    },
    leave: (exchange) => {
      if (!exchange.hasPlace) return
      exchange.hasPlace = false
      count(slotsOf(exchange), exchange, -1)
      if (exchange.countedFor !== null) byAccount.remove(exchange.countedFor)
      exchange.countedFor = null
    },
  }
}
