import type { AccountId, KeyId } from '../ids.ts'
import type { Scope } from '../terms/scope.ts'
import type { AccountEvent } from './events.ts'
import type { AccountState } from './fold.ts'

/** No events: what was asked for stands already. */
export type AccountDecision<Refusal = AccountRefusal> =
  | { readonly outcome: 'decided'; readonly events: readonly AccountEvent[] }
  | { readonly outcome: 'refused'; readonly refusal: Refusal }

export type AccountRefusal =
  | { readonly code: 'unknown_account' }
  | { readonly code: 'account_exists' }
  | { readonly code: 'unknown_key' }
  | { readonly code: 'key_revoked' }
  | { readonly code: 'too_many_keys'; readonly limit: number }

/** Keys that work at once; revoked ones do not count. */
export const maxActiveKeys = 100

const decided = (...events: AccountEvent[]): AccountDecision<never> => ({ outcome: 'decided', events })
const refused = <Refusal>(refusal: Refusal): AccountDecision<Refusal> => ({ outcome: 'refused', refusal })
const unknownAccount = refused({ code: 'unknown_account' as const })

/** Refusal: `account_exists`. */
export const decideCreation = (
  state: AccountState,
  account: { readonly accountId: AccountId; readonly reseller: boolean },
): AccountDecision =>
  state ? refused({ code: 'account_exists' }) : decided({ type: 'AccountCreated', data: { ...account } })

/** Blocks once; a blocked account stays blocked for the reason of its first block. Refusal: `unknown_account`. */
export const decideBlock = (
  state: AccountState,
  { reason }: { readonly reason: string },
): AccountDecision => {
  if (!state) return unknownAccount
  return state.blocked ? decided() : decided({ type: 'AccountBlocked', data: { reason } })
}

/** Refusal: `unknown_account`. */
export const decideUnblock = (state: AccountState): AccountDecision => {
  if (!state) return unknownAccount
  return state.blocked ? decided({ type: 'AccountUnblocked', data: {} }) : decided()
}

const isCap = (dailyCapCents: number | null): boolean =>
  dailyCapCents === null || (Number.isSafeInteger(dailyCapCents) && dailyCapCents >= 0)

export type KeyIssue = {
  readonly keyId: KeyId
  readonly scopes: readonly Scope[]
  readonly dailyCapCents: number | null
  readonly displayPrefix: string
}

/** A key id that was issued is not issued again. Refusals: `unknown_account`, `too_many_keys`. */
export const decideIssue = (state: AccountState, issue: KeyIssue): AccountDecision => {
  if (!isCap(issue.dailyCapCents)) throw new RangeError(`${issue.dailyCapCents} is no cap in cents`)
  if (!state) return unknownAccount
  if (state.keys.has(issue.keyId)) return decided()
  const active = state.keys.count(({ revoked }) => !revoked)
  if (active >= maxActiveKeys) return refused({ code: 'too_many_keys', limit: maxActiveKeys })
  return decided({ type: 'KeyIssued', data: { ...issue } })
}

/** Sets or lifts (null) the cap. Refusals: `unknown_account`, `unknown_key`, `key_revoked`. */
export const decideCap = (
  state: AccountState,
  cap: { readonly keyId: KeyId; readonly dailyCapCents: number | null },
): AccountDecision => {
  if (!isCap(cap.dailyCapCents)) throw new RangeError(`${cap.dailyCapCents} is no cap in cents`)
  if (!state) return unknownAccount
  const key = state.keys.get(cap.keyId)
  if (!key) return refused({ code: 'unknown_key' })
  if (key.revoked) return refused({ code: 'key_revoked' })
  return key.dailyCapCents === cap.dailyCapCents
    ? decided()
    : decided({ type: 'KeyCapped', data: { ...cap } })
}

/** A revoked key never works again. Refusals: `unknown_account`, `unknown_key`. */
export const decideRevocation = (
  state: AccountState,
  { keyId }: { readonly keyId: KeyId },
): AccountDecision => {
  if (!state) return unknownAccount
  const key = state.keys.get(keyId)
  if (!key) return refused({ code: 'unknown_key' })
  return key.revoked ? decided() : decided({ type: 'KeyRevoked', data: { keyId } })
}
