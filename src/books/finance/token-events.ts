import type { DomainEvent } from '../../platform/eventstore/event.ts'

/** The stream `finance`: who may read the books over HTTP. The token's hash stands in the vault, never here. */
export type FinanceTokenIssued = DomainEvent<
  'FinanceTokenIssued',
  {
    readonly tokenId: string
    /** What it is for, as the operator wrote it. It stands in the log for ever and names no person. */
    readonly name: string
    /** The first 8 characters of the token, for display. */
    readonly displayPrefix: string
    /** ISO 8601 UTC; null for one that works until it is revoked. */
    readonly expiresAt: string | null
  }
>
export type FinanceTokenRevoked = DomainEvent<'FinanceTokenRevoked', { readonly tokenId: string }>

export type FinanceTokenEvent = FinanceTokenIssued | FinanceTokenRevoked
