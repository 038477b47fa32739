import type { Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { anyId, hex, integer, orAbsent, orNull, pastTime, text } from '../../kernel/event-fields.ts'

/** The `period-{yyyy-mm}` stream. The cut-off is its first event. */
const stream = 'period-{yyyy-mm}'

const period = text('the month, `yyyy-mm`')

export const periodCutOff = defineEvent('PeriodCutOff', {
  stream,
  means:
    'The month can no longer change: this event is after its end, accounting time never goes back, and later lines of statements are not dated before its end.',
  fields: { period, endedAt: pastTime('when the month ended') },
})
export type PeriodCutOff = EventOf<typeof periodCutOff>

export const periodClosed = defineEvent('PeriodClosed', {
  stream,
  means: "The month's books as of the cut-off. The digest covers the report of docs/finance/periods.md.",
  fields: {
    period,
    throughOrdinal: integer(
      'events',
      '0 or more',
      'how many events of the log have an accounting time before its end: ordinal 1 to this one; 0 before any. Lines of statements that are dated back follow',
    ),
    throughEventId: orNull(anyId('the last of them; null before any')),
    entries: integer('entries', '0 or more', 'of the journal, in the month itself'),
    accounts: integer('accounts', '0 or more', 'accounts with bookings before its end, over all books'),
    chart: orAbsent(
      integer(
        'number',
        'above 0',
        "the version of the chart of accounts; absent before resellers' books had debts",
      ),
    ),
    digest: hex(32, 'SHA-256 of the report as CSV'),
  },
})
export type PeriodClosed = EventOf<typeof periodClosed>

export const periodEventDefinitions = [periodCutOff, periodClosed] as const
export type PeriodEvent = EventOf<(typeof periodEventDefinitions)[number]>

/**
 * A month before its closing, a month that was cut off (the closing is interrupted or in progress), or a closed month.
 */
export type PeriodState =
  | { readonly status: 'open' }
  | { readonly status: 'cut off'; readonly endMs: number }
  | {
      readonly status: 'closed'
      readonly endMs: number
      readonly closed: PeriodClosed['data']
      readonly closedAtMs: number
    }

const evolve: Fold<PeriodState, PeriodEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'PeriodCutOff':
      if (state.status !== 'open') throw new Error(`period ${event.data.period} was cut off twice`)
      return { status: 'cut off', endMs: Date.parse(event.data.endedAt) }
    case 'PeriodClosed':
      if (state.status !== 'cut off')
        throw new Error(`period ${event.data.period} was closed while ${state.status}`)
      return { status: 'closed', endMs: state.endMs, closed: event.data, closedAtMs: event.recordedAtMs }
    default: {
      const unknown: never = event
      throw new Error(`unknown period event ${JSON.stringify(unknown)}`)
    }
  }
}

export const periodFold: Fold<PeriodState, PeriodEvent> = {
  name: 'period',
  version: 2,
  initial: { status: 'open' },
  evolve,
}
