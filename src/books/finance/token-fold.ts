import { Map as ImmutableMap } from 'immutable'
import type { Fold } from '../../platform/eventstore/fold.ts'
import type { FinanceTokenEvent } from './token-events.ts'

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
export const works = (token: FinanceTokenState, nowMs: number): boolean =>
  !token.revoked && (token.expiresAtMs === null || nowMs < token.expiresAtMs)
