import { deriveId } from '../../kernel/ids.ts'
import { type Decided, decided } from '../../platform/eventstore/decision.ts'
import type { Fold } from '../../platform/eventstore/fold.ts'
import { type StreamName, statementStream } from '../../terms/streams.ts'
import type { StatementLineBooked } from './statement-events.ts'

/** A line that a statement names, as it is to be booked. */
export type StatementBooking = StatementLineBooked['data']

/** The stream of a line: its name spends the provider's id for ever. */
export const streamOfLine = ({
  gateway,
  reference,
}: Pick<StatementBooking, 'gateway' | 'reference'>): StreamName =>
  statementStream(deriveId('stl', ['service', gateway, reference]))

/** What was booked of a line; null for nothing yet. */
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

/** `booked` before with the same amounts is `standing`, with others `other`: nothing is booked then. */
export type StatementAnswer = { readonly became: 'booked' | 'standing' | 'other' }

/** Books a line once. */
export const decideStatement = (
  standing: StatementState,
  line: StatementBooking,
): Decided<StatementLineBooked> & StatementAnswer => {
  if (standing === null)
    return { ...decided({ type: 'StatementLineBooked', data: line } as const), became: 'booked' }
  const same = standing.feeMicros === line.feeMicros && standing.payoutMicros === line.payoutMicros
  return { ...decided<StatementLineBooked>(), became: same ? 'standing' : 'other' }
}
