import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import { refuse } from './errors.ts'

/** The account and key behind a request. Never log or answer anything that the key can be made from. */
export type Caller = {
  readonly accountId: AccountId
  readonly keyId: KeyId
  /** The key under which its spending counts: the first one of those that it was rolled from, else itself. */
  readonly capKeyId: KeyId
  readonly scopes: readonly Scope[]
  /** Whole cents in any 24 hours; null for no cap. */
  readonly dailyCapCents: number | null
  readonly reseller: boolean
  /** May read, may not write (docs/http-api.md, "Authentication"). */
  readonly blocked: boolean
  readonly email: string
}

/** Who causes the events of a request. */
export const causeOf = ({
  caller,
  requestId,
}: {
  readonly caller: Caller
  readonly requestId: string
}): Cause => ({
  actor: { kind: 'key', accountId: caller.accountId, keyId: caller.keyId },
  correlationId: requestId,
})

/** Looks keys up; `src/features/accounts/authenticate.ts` implements it. Revocation and blocking show within a second. */
export type Directory = {
  /**
   * The caller that the key belongs to; null for a key that is unknown, revoked or expired, or that does not work from this
   * address. The key may be any text.
   */
  byKey(key: string, address: string): Promise<Caller | null>
}

/** The finance token behind a request for the books: it belongs to no account and opens nothing else. */
export type FinanceCaller = { readonly tokenId: string }

/** Looks finance tokens up; `src/features/finance/token-service.ts` implements it. */
export type FinanceDirectory = {
  /** The reader that the token belongs to, or null for an unknown, revoked or expired one. It may be any text. */
  byToken(token: string): Promise<FinanceCaller | null>
}

type KeyHeaders = {
  readonly 'x-api-key'?: string | string[] | undefined
  readonly authorization?: string | undefined
}

const bearer = /^Bearer +(\S+)$/i

/**
 * The key that a request carries: `X-API-Key` or `Authorization: Bearer` (docs/http-api.md, "Authentication").
 * @param missing what a request without one is told
 * @throws unauthorized: none, or two different keys in the two headers
 */
export const apiKeyOf = (
  headers: KeyHeaders,
  missing = 'no API key: send it as X-API-Key or as Authorization: Bearer <API_KEY>',
): string => {
  const direct = headers['x-api-key']
  const { authorization } = headers
  const fromBearer = authorization === undefined ? undefined : bearer.exec(authorization)?.[1]
  if (direct === undefined && authorization !== undefined && fromBearer === undefined)
    throw refuse('unauthorized', 'the Authorization header must be "Bearer <API_KEY>"')
  if (direct !== undefined && fromBearer !== undefined && direct !== fromBearer)
    throw refuse('unauthorized', 'X-API-Key and Authorization carry two different keys; send one')
  const key = direct ?? fromBearer
  if (key === undefined || key === '' || typeof key !== 'string') throw refuse('unauthorized', missing)
  return key
}

/**
 * The reader of the books that a request comes from.
 * @throws unauthorized: no token, an unknown, revoked or expired one, or an API key
 */
export const authenticateFinance = async (
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
 * The caller of a request.
 * @throws unauthorized: no key, one that does not work (here), or two different ones
 */
export const authenticate = async (
  directory: Directory,
  headers: KeyHeaders,
  address: string,
): Promise<Caller> => {
  const caller = await directory.byKey(apiKeyOf(headers), address)
  // One text for all of it: who found a key, or guesses one, learns nothing about it.
  if (caller === null)
    throw refuse(
      'unauthorized',
      'the API key does not work: it is unknown, revoked or expired, or is not for use from this address',
    )
  return caller
}

/** Whether a request comes from somebody who may see how the service is inside: hosts, ports, route labels, figures. */
export type OperatorAccess = (headers: IncomingHttpHeaders) => boolean

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/**
 * Who has the token; nobody where there is none. That a request comes from this machine is no sign of its operator: a proxy
 * on it sends those of the whole world, and nginx by itself adds no header that tells.
 */
export const operatorTokenAccess =
  (token: string | null): OperatorAccess =>
  ({ authorization }) =>
    token !== null && timingSafeEqual(digest(authorization ?? ''), digest(`Bearer ${token}`))

const ofProxies = [
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
]
const hostOfThisMachine = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i

/**
 * On a listener that only this machine reaches: everybody but a proxy that says that it is one, and a page in a browser here,
 * whose own host leads to this machine.
 */
export const localOperatorAccess: OperatorAccess = (headers) =>
  hostOfThisMachine.test(headers.host ?? '') && ofProxies.every((name) => headers[name] === undefined)
