import { type Decided, decided, type Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { micros, text, time } from '../../kernel/event-fields.ts'
import { deriveId } from '../../kernel/ids.ts'
import { type StreamName, statementStream } from '../../kernel/streams.ts'

/** A line of a statement, before it is booked. */
export type StatementBooking = StatementLineBooked['data']

/** The stream of a line. Its name makes the provider's id unique. */
export const streamOfLine = ({
  gateway,
  reference,
}: Pick<StatementBooking, 'gateway' | 'reference'>): StreamName =>
  statementStream(deriveId('stl', ['service', gateway, reference]))

/** The booked line; null if it is not booked yet. */
export type StatementState = StatementBooking | null

export const statementFold: Fold<StatementState, StatementLineBooked> = {
  name: 'statement',
  version: 1,
  initial: null,
  evolve: (before, event) => {
    if (before) throw new Error(`line ${event.data.reference} of ${event.data.gateway} was booked twice`)
    return event.data
  },
}

/**
 * If the line was booked before: `standing` with the same amounts, `other` with different ones. Nothing is booked then.
 */
export type StatementAnswer = { readonly became: 'booked' | 'standing' | 'other' }

/** Books a line once. */
export const decideStatement = (
  existing: StatementState,
  line: StatementBooking,
): Decided<StatementLineBooked> & StatementAnswer => {
  if (existing === null)
    return { ...decided({ type: 'StatementLineBooked', data: line } as const), became: 'booked' }
  const isSameAmount = existing.feeMicros === line.feeMicros && existing.payoutMicros === line.payoutMicros
  return { ...decided<StatementLineBooked>(), became: isSameAmount ? 'standing' : 'other' }
}

/** The lines of a provider's statement about the service's own gateways, except payments, which are in the ledgers. */
export const statementLineBooked = defineEvent('StatementLineBooked', {
  stream: 'statement-{line}',
  means:
    "A line of a provider's statement was booked: a fee, a payout to the bank, or a withdrawal by the provider.",
  fields: {
    gateway: text("the service's gateway in the books, e.g. `stripe`"),
    reference: text("the line's id at the provider: with the gateway it is booked once"),
    category: text("the provider's term, e.g. `payout`"),
    feeMicros: micros('either sign', "positive: the provider's fee; negative: returned by the provider"),
    payoutMicros: micros('either sign', 'above zero: it left the gateway for the bank; below: it came back'),
    happenedAt: time('the time in the statement'),
  },
})
export type StatementLineBooked = EventOf<typeof statementLineBooked>

export const statementEventDefinitions = [statementLineBooked] as const
