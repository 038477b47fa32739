import { Map as ImmutableMap } from 'immutable'
import { isoTime } from '../../kernel/clock.ts'
import { type Decided, type Decision, decided, type Fold, refused } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  adoptedCommitment,
  anyId,
  commitment,
  group,
  list,
  orNull,
  text,
  time,
} from '../../kernel/event-fields.ts'
import { refusalToIssue } from '../accounts/decide.ts'
import { adoptKeyCommitments, type KeyState } from '../accounts/fold.ts'

/** An API key that reads the books, and nothing else. It belongs to no account. */
export type FinanceTokenState = Pick<KeyState, 'displayPrefix' | 'revoked' | 'expiresAtMs' | 'commitment'> & {
  readonly name: string
  readonly issuedAtMs: number
}

/** By token id, in the order in which they were issued. */
export type FinanceTokens = ImmutableMap<string, FinanceTokenState>

const evolve: Fold<FinanceTokens, FinanceTokenEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'FinanceTokenIssued': {
      const { tokenId, name, displayPrefix, expiresAt, commitment = null } = event.data
      return state.set(tokenId, {
        name,
        displayPrefix,
        issuedAtMs: event.recordedAtMs,
        expiresAtMs: expiresAt === null ? null : Date.parse(expiresAt),
        revoked: false,
        commitment,
      })
    }
    case 'FinanceTokenRevoked': {
      const token = state.get(event.data.tokenId)
      if (!token) throw new Error(`the finance token ${event.data.tokenId} was revoked and never issued`)
      return state.set(event.data.tokenId, { ...token, revoked: true })
    }
    case 'FinanceTokenCommitmentsAdopted':
      return adoptKeyCommitments(
        state,
        event.data.tokens.map(({ tokenId, commitment }) => [tokenId, commitment]),
      )
    default: {
      const unknown: never = event
      throw new Error(`unknown finance token event ${JSON.stringify(unknown)}`)
    }
  }
}

/** Never snapshotted, because there are few tokens. */
export const financeTokenFold: Fold<FinanceTokens, FinanceTokenEvent> = {
  name: 'finance-tokens',
  version: 1,
  initial: ImmutableMap(),
  evolve,
}

export type FinanceTokenRefusal =
  | NonNullable<ReturnType<typeof refusalToIssue>>
  | { readonly code: 'unknown_token' }

export type FinanceTokenDecision = Decision<FinanceTokenEvent, FinanceTokenRefusal>

export type FinanceTokenIssue = {
  readonly tokenId: string
  readonly name: string
  readonly displayPrefix: string
  readonly expiresAtMs: number | null
  /** Commits to the token's hash in the vault. */
  readonly commitment: string
}

/** Refusals: `expiry_passed`, `too_many_keys`. */
export const decideTokenIssue = (
  state: FinanceTokens,
  { expiresAtMs, ...issue }: FinanceTokenIssue,
  nowMs: number,
): FinanceTokenDecision => {
  const refusal = refusalToIssue(state, expiresAtMs, nowMs)
  if (refusal) return refused(refusal)
  const expiresAt = expiresAtMs === null ? null : isoTime(expiresAtMs)
  return decided({ type: 'FinanceTokenIssued', data: { ...issue, expiresAt } })
}

/** A revoked token never works again. Refusal: `unknown_token`. */
export const decideTokenRevocation = (state: FinanceTokens, tokenId: string): FinanceTokenDecision => {
  const token = state.get(tokenId)
  if (!token) return refused({ code: 'unknown_token' })
  return token.revoked ? decided() : decided({ type: 'FinanceTokenRevoked', data: { tokenId } })
}

/** Adopts tokens that an upgrade found in the vault and to which no event commits yet. */
export const decideTokenAdoption = (
  state: FinanceTokens,
  vaultTokens: readonly { readonly tokenId: string; readonly commitment: string }[],
): Decided<FinanceTokenEvent> => {
  const tokens = vaultTokens.filter(({ tokenId }) => state.get(tokenId)?.commitment === null)
  return tokens.length === 0
    ? decided()
    : decided({ type: 'FinanceTokenCommitmentsAdopted', data: { tokens } })
}

/** The stream `finance`: the tokens that read the books over HTTP. The hash of a token is in the vault only. */
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
    commitment: commitment('the hash of the token'),
  },
})
export type FinanceTokenIssued = EventOf<typeof financeTokenIssued>

export const financeTokenRevoked = defineEvent('FinanceTokenRevoked', {
  stream,
  means: 'A token reads nothing more.',
  fields: { tokenId },
})
export type FinanceTokenRevoked = EventOf<typeof financeTokenRevoked>

export const financeTokenCommitmentsAdopted = defineEvent('FinanceTokenCommitmentsAdopted', {
  stream,
  means:
    'An upgrade commits to the vault data of an older release. It happens once, before any other event of the newer release.',
  fields: {
    tokens: list(
      group({ tokenId, commitment: adoptedCommitment('the hash of the token') }, 'a token'),
      'tokens whose events commit to nothing',
    ),
  },
})

export const financeTokenEventDefinitions = [
  financeTokenIssued,
  financeTokenRevoked,
  financeTokenCommitmentsAdopted,
] as const
export type FinanceTokenEvent = EventOf<(typeof financeTokenEventDefinitions)[number]>
