import type { AccountId, KeyId } from '../../kernel/ids.ts'
import type { Scope } from '../../terms/scope.ts'
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

/** Looks keys up; `src/market/accounts/directory.ts` implements it. Revocation and blocking show within a second. */
export type Directory = {
  /**
   * The caller that the key belongs to; null for a key that is unknown, revoked or expired, or that does not work from this
   * address. The key may be any text.
   */
  byKey(key: string, address: string): Promise<Caller | null>
}

/** The finance token behind a request for the books: it belongs to no account and opens nothing else. */
export type FinanceCaller = { readonly tokenId: string }

/** Looks finance tokens up; `src/books/finance/find-reader.ts` implements it. */
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
export const keyOf = (
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
  const token = keyOf(headers, 'no finance token: send it as Authorization: Bearer <FINANCE_TOKEN>')
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
  const caller = await directory.byKey(keyOf(headers), address)
  // One text for all of it: who found a key, or guesses one, learns nothing about it.
  if (caller === null)
    throw refuse(
      'unauthorized',
      'the API key does not work: it is unknown, revoked or expired, or is not for use from this address',
    )
  return caller
}
