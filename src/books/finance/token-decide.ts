import { isoTime } from '../../kernel/clock.ts'
import { type Decision, decided, refused } from '../../platform/eventstore/decision.ts'
import type { FinanceTokenEvent } from './token-events.ts'
import { type FinanceTokens, works } from './token-fold.ts'

/** Tokens that work at once; revoked and expired ones do not count. */
export const maxWorkingTokens = 100

export type FinanceTokenRefusal =
  | { readonly code: 'too_many_tokens'; readonly limit: number }
  | { readonly code: 'expiry_passed' }
  | { readonly code: 'unknown_token' }

export type FinanceTokenDecision = Decision<FinanceTokenEvent, FinanceTokenRefusal>

export type FinanceTokenIssue = {
  readonly tokenId: string
  readonly name: string
  readonly displayPrefix: string
  readonly expiresAtMs: number | null
}

/** Refusals: `expiry_passed`, `too_many_tokens`. */
export const decideTokenIssue = (
  state: FinanceTokens,
  { expiresAtMs, ...issue }: FinanceTokenIssue,
  nowMs: number,
): FinanceTokenDecision => {
  if (expiresAtMs !== null && expiresAtMs <= nowMs) return refused({ code: 'expiry_passed' })
  if (state.count((token) => works(token, nowMs)) >= maxWorkingTokens)
    return refused({ code: 'too_many_tokens', limit: maxWorkingTokens })
  const expiresAt = expiresAtMs === null ? null : isoTime(expiresAtMs)
  return decided({ type: 'FinanceTokenIssued', data: { ...issue, expiresAt } })
}

/** A revoked token never works again. Refusal: `unknown_token`. */
export const decideTokenRevocation = (state: FinanceTokens, tokenId: string): FinanceTokenDecision => {
  const token = state.get(tokenId)
  if (!token) return refused({ code: 'unknown_token' })
  return token.revoked ? decided() : decided({ type: 'FinanceTokenRevoked', data: { tokenId } })
}
