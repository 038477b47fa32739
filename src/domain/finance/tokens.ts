import { Map as ImmutableMap } from 'immutable'
import { isoTime } from '../../kernel/clock.ts'
import { type Decision, decided, type Fold, refused } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { anyId, orNull, text, time } from '../../kernel/event-fields.ts'

export type FinanceTokenState = {
  readonly name: string
  readonly displayPrefix: string
  readonly issuedAtMs: number
  readonly expiresAtMs: number | null
  readonly revoked: boolean
}

/** By token id, in the order of their issue. */
export type FinanceTokens = ImmutableMap<string, FinanceTokenState>

const evolve: Fold<FinanceTokens, FinanceTokenEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'FinanceTokenIssued': {
      const { tokenId, name, displayPrefix, expiresAt } = event.data
      return state.set(tokenId, {
        name,
        displayPrefix,
        issuedAtMs: event.recordedAtMs,
        expiresAtMs: expiresAt === null ? null : Date.parse(expiresAt),
        revoked: false,
      })
    }
    case 'FinanceTokenRevoked': {
      const token = state.get(event.data.tokenId)
      if (!token) throw new Error(`the finance token ${event.data.tokenId} was revoked and never issued`)
      return state.set(event.data.tokenId, { ...token, revoked: true })
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown finance token event ${JSON.stringify(unknown)}`)
    }
  }
}

/** Never snapshotted: tokens are few. */
export const financeTokenFold: Fold<FinanceTokens, FinanceTokenEvent> = {
  name: 'finance-tokens',
  version: 1,
  initial: ImmutableMap(),
  evolve,
}

/** Whether the token opens anything at this time. It ends with its last millisecond. */
export const isTokenActive = (token: FinanceTokenState, nowMs: number): boolean =>
  !token.revoked && (token.expiresAtMs === null || nowMs < token.expiresAtMs)

/** Tokens that work at once; revoked and expired ones do not count. */
export const maxActiveTokens = 100

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
  if (state.count((token) => isTokenActive(token, nowMs)) >= maxActiveTokens)
    return refused({ code: 'too_many_tokens', limit: maxActiveTokens })
  const expiresAt = expiresAtMs === null ? null : isoTime(expiresAtMs)
  return decided({ type: 'FinanceTokenIssued', data: { ...issue, expiresAt } })
}

/** A revoked token never works again. Refusal: `unknown_token`. */
export const decideTokenRevocation = (state: FinanceTokens, tokenId: string): FinanceTokenDecision => {
  const token = state.get(tokenId)
  if (!token) return refused({ code: 'unknown_token' })
  return token.revoked ? decided() : decided({ type: 'FinanceTokenRevoked', data: { tokenId } })
}

/** The stream `finance`: who may read the books over HTTP. The token's hash stands in the vault, never here. */
const stream = 'finance'

const tokenId = anyId('the token')

export const financeTokenIssued = defineEvent('FinanceTokenIssued', {
  stream,
  means: 'A token reads the books from here on.',
  fields: {
    tokenId,
    name: text('what it is for, as the operator wrote it; it names no person'),
    displayPrefix: text('the first 8 characters of the token, for display'),
    expiresAt: orNull(time('null for one that works until it is revoked')),
  },
})
export type FinanceTokenIssued = EventOf<typeof financeTokenIssued>

export const financeTokenRevoked = defineEvent('FinanceTokenRevoked', {
  stream,
  means: 'A token reads nothing more.',
  fields: { tokenId },
})
export type FinanceTokenRevoked = EventOf<typeof financeTokenRevoked>

export const financeTokenEventDefinitions = [financeTokenIssued, financeTokenRevoked] as const
export type FinanceTokenEvent = EventOf<(typeof financeTokenEventDefinitions)[number]>
