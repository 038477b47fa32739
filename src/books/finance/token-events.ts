import { type EventOf, fact } from '../../platform/eventstore/fact.ts'
import { anyId, orNull, text, time } from '../../terms/fields.ts'

/** The stream `finance`: who may read the books over HTTP. The token's hash stands in the vault, never here. */
const stream = 'finance'

const tokenId = anyId('the token')

export const financeTokenIssued = fact('FinanceTokenIssued', {
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

export const financeTokenRevoked = fact('FinanceTokenRevoked', {
  stream,
  means: 'A token reads nothing more.',
  fields: { tokenId },
})
export type FinanceTokenRevoked = EventOf<typeof financeTokenRevoked>

export const financeTokenFacts = [financeTokenIssued, financeTokenRevoked] as const
export type FinanceTokenEvent = EventOf<(typeof financeTokenFacts)[number]>
