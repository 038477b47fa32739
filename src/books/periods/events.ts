import type { DomainEvent } from '../../platform/eventstore/event.ts'

/**
 * The `period-{yyyy-mm}` stream. The cut-off comes first. Its own time lies past the month, and accounting time never
 * runs back, so whatever the log takes after it is booked later: from here on the month cannot change.
 */
export type PeriodCutOff = DomainEvent<'PeriodCutOff', { readonly period: string; readonly endedAt: string }>

/** The month's books as of the cut-off: docs/periods.md has the report that the digest is over. */
export type PeriodClosed = DomainEvent<
  'PeriodClosed',
  {
    readonly period: string
    /** How many events of the log were booked through its end: ordinal 1 to this one. 0 before any. */
    readonly throughOrdinal: number
    /** The last of them. */
    readonly throughEventId: string | null
    /** Journal entries of the month itself. */
    readonly entries: number
    /** Accounts, over all books, that were ever booked on by its end. */
    readonly accounts: number
    /** SHA-256 of the report as CSV, lower-case hex. */
    readonly digest: string
  }
>

export type PeriodEvent = PeriodCutOff | PeriodClosed
