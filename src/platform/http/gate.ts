import type { Scope } from '../../terms/scope.ts'
import type { Caller, Directory, FinanceCaller, FinanceDirectory } from './auth.ts'
import { authenticate, authenticateFinance } from './auth.ts'
import { addressSubject } from './client-address.ts'
import { refuse, refuseUntil } from './errors.ts'
import type { HttpRequest } from './exchange.ts'
import type { RateLimiter } from './rate-limit.ts'
import type { Route } from './route.ts'

/** The limits that every request counts against; null where limits are switched off. */
export type Limits = { readonly perAddress: RateLimiter; readonly perKey: RateLimiter } | null

/** @throws rate_limited when the address sends too much */
export const admitAddress = (limits: Limits, address: string): void => {
  const waitS = limits?.perAddress.take(addressSubject(address)) ?? 0
  if (waitS > 0) throw refuseUntil('rate_limited', `too many requests from ${address}`, waitS)
}

const admitOwnLimit = async (route: Route, per: 'address' | 'account', subject: string): Promise<void> => {
  if (route.limit?.per !== per) return
  const waitS = await route.limit.take(subject)
  if (waitS > 0) throw refuseUntil('rate_limited', `too many requests of ${route.operationId}`, waitS)
}

const admitScope = ({ access }: Route, caller: Caller): void => {
  if (access === 'any-key' || access === 'public' || caller.scopes.includes(access as Scope)) return
  throw refuse(
    'missing_scope',
    `the key lacks the scope "${access}"; it carries: ${caller.scopes.join(', ') || 'none'}`,
  )
}

/**
 * As `admit`, for a route of finance: 401 and the limit per token.
 * @throws unauthorized, rate_limited
 */
export const admitFinance = async (
  request: HttpRequest,
  directory: FinanceDirectory,
  limits: Limits,
): Promise<FinanceCaller> => {
  const reader = await authenticateFinance(directory, request.headers)
  const waitS = limits?.perKey.take(reader.tokenId) ?? 0
  if (waitS > 0) throw refuseUntil('rate_limited', 'too many requests with this token', waitS)
  return reader
}

/**
 * The checks of a known route before its body is read: 401, limit per key, `missing_scope`, `account_blocked`, the
 * operation's own limit.
 * @returns the caller; null on a public route, whose key is ignored (docs/http-api.md, "Authentication"), and on one of
 * finance
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
  if (waitS > 0) throw refuseUntil('rate_limited', 'too many requests with this key', waitS)
  admitScope(route, caller)
  if (route.writes && caller.blocked)
    throw refuse('account_blocked', 'the account is blocked: it may read, not write')
  if (limits !== null) await admitOwnLimit(route, 'account', caller.accountId)
  return caller
}
