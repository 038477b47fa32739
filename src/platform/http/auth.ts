import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import type { KeyCap, KeyScope as Scope } from '../../kernel/scopes.ts'

/** The account and key of a request. Never log or answer anything from which the key can be derived. */
export type Caller = {
  readonly accountId: AccountId
  readonly keyId: KeyId
  /** The key that its spending counts against: the first of the keys that it was rotated from, else itself. */
  readonly capKeyId: KeyId
  readonly scopes: readonly Scope[]
  /** Null for no cap. */
  readonly cap: KeyCap | null
  readonly reseller: boolean
  /** True: the account may read and may not write (docs/reference/api.md, "Authentication"). */
  readonly blocked: boolean
  readonly email: string
}

/** The actor and the correlation id of the events of a request. */
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

/**
 * Finds callers by key. `src/features/accounts/authenticate.ts` implements it. Revocation and blocking take effect
 * within a second.
 */
export type Directory = {
  /**
   * The caller of the key. Null for a key that is unknown, revoked or expired, or that is not valid from this address.
   * The key may be any text.
   */
  byKey(key: string, address: string): Promise<Caller | null>
}

/** The finance token of a request for the books. It belongs to no account and gives no other access. */
export type FinanceCaller = { readonly tokenId: string }

/** Finds finance tokens. `src/features/finance/token-service.ts` implements it. */
export type FinanceDirectory = {
  /** The caller of the token, or null for an unknown, revoked or expired token. The token may be any text. */
  byToken(token: string): Promise<FinanceCaller | null>
}

/** Whether a request may see internal details: hosts, ports, route labels, figures. */
export type OperatorAccess = (headers: IncomingHttpHeaders) => boolean

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/**
 * Grants access to requests with the token, and to none if no token is set. A local peer address does not identify the
 * operator: a local proxy forwards requests of all clients, and nginx by default adds no header that shows it.
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
 * For a listener that only this machine reaches. Refuses a proxy that identifies itself by a header, and a page in a
 * local browser whose own host name resolves to this machine.
 */
export const localOperatorAccess: OperatorAccess = (headers) =>
  hostOfThisMachine.test(headers.host ?? '') && ofProxies.every((name) => headers[name] === undefined)
