import { type Decided, decided, type Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { group, hex, id, micros, orNull, text, time } from '../../kernel/event-fields.ts'
import { deriveId } from '../../kernel/ids.ts'
import { type StreamName, statementStream } from '../../kernel/streams.ts'

/** A line of a statement, before it is booked. */
export type StatementBooking = StatementLineBooked['data']
/** As it is proposed: all but the gateway and the proposal. */
export type ProposedLine = Omit<StatementBooking, 'gateway' | 'proposalId'>

/** The stream of a line. Its name makes the provider's id unique. */
export const streamOfLine = ({
  gateway,
  reference,
}: Pick<StatementBooking, 'gateway' | 'reference'>): StreamName =>
  statementStream(deriveId('stl', ['service', gateway, reference]))

/** The line as it is booked, with its corrections; null if it is not booked yet. */
export type StatementState = StatementBooking | null

export const statementFold: Fold<StatementState, StatementLineEvent> = {
  name: 'statement',
  version: 2,
  initial: null,
  evolve: (before, { type, data }) => {
    if (type === 'StatementLineBooked') {
      if (before) throw new Error(`line ${data.reference} of ${data.gateway} was booked twice`)
      return data
    }
    if (!before)
      throw new Error(`line ${data.reference} of ${data.gateway} was corrected before it was booked`)
    return {
      ...before,
      feeMicros: before.feeMicros + data.feeMicros,
      payoutMicros: before.payoutMicros + data.payoutMicros,
    }
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

/** The right amounts of a line that was booked with wrong ones; left out: as booked. 0 and 0: it is on no statement. */
export type StatementCorrection = {
  readonly feeMicros?: number | undefined
  readonly payoutMicros?: number | undefined
  readonly reason: string
  readonly proposalId: string | null
}

/** Books the difference between the booked and the right amounts. Nothing if they are equal. */
export const decideStatementCorrection = (
  booked: StatementBooking,
  {
    feeMicros = booked.feeMicros,
    payoutMicros = booked.payoutMicros,
    reason,
    proposalId,
  }: StatementCorrection,
): Decided<StatementLineCorrected> => {
  const { gateway, reference, category, happenedAt } = booked
  const change = { feeMicros: feeMicros - booked.feeMicros, payoutMicros: payoutMicros - booked.payoutMicros }
  if (change.feeMicros === 0 && change.payoutMicros === 0) return decided()
  return decided({
    type: 'StatementLineCorrected',
    data: {
      gateway,
      reference,
      category,
      ...change,
      feeAfterMicros: feeMicros,
      payoutAfterMicros: payoutMicros,
      happenedAt,
      reason,
      proposalId,
    },
  } as const)
}

/** The fields of a line besides its gateway, in the order of the event. */
export const lineFields = {
  reference: text("the line's id at the provider: with the gateway it is booked once"),
  category: text("the provider's term, e.g. `payout`"),
  feeMicros: micros('either sign', "positive: the provider's fee; negative: returned by the provider"),
  payoutMicros: micros('either sign', 'above zero: it left the gateway for the bank; below: it came back'),
  happenedAt: time(
    'the time in the statement: the accounting time, unless its month was cut off, it is in the future, or before the log',
  ),
  file: orNull(
    group(
      { name: text('its name'), sha256: hex(32, 'SHA-256 of its bytes') },
      'the file that a person posted; null: the provider reported it to the service',
    ),
  ),
}
/** The fields of a correction besides its proposal, in the order of the event. */
export const correctionFields = {
  gateway: text('as booked'),
  reference: text('as booked'),
  category: text('as booked'),
  feeMicros: micros('either sign', 'the right fee less the booked fee'),
  payoutMicros: micros('either sign', 'the right payout less the booked payout'),
  feeAfterMicros: micros('either sign', 'the right fee: an auditor checks it'),
  payoutAfterMicros: micros('either sign', 'the right payout: an auditor checks it'),
  happenedAt: time('the time in the statement, as booked: the accounting time under the same rule'),
  reason: text('the typed reason, which names no person'),
}
const proposalId = orNull(id('prp', 'the approved proposal; null: one operator may post it alone'))

/** The lines of a provider's statement about the service's own gateways, except payments, which are in the ledgers. */
export const statementLineBooked = defineEvent('StatementLineBooked', {
  stream: 'statement-{line}',
  means:
    "A line of a provider's statement was booked: a fee, a payout to the bank, or a withdrawal by the provider.",
  fields: {
    gateway: text("the service's gateway in the books, e.g. `stripe`"),
    ...lineFields,
    proposalId,
  },
})
export type StatementLineBooked = EventOf<typeof statementLineBooked>

export const statementLineCorrected = defineEvent('StatementLineCorrected', {
  stream: 'statement-{line}',
  means: 'A line that was booked with wrong amounts was corrected: the difference is booked.',
  fields: { ...correctionFields, proposalId },
})
export type StatementLineCorrected = EventOf<typeof statementLineCorrected>
export type StatementLineEvent = StatementLineBooked | StatementLineCorrected

export const statementEventDefinitions = [statementLineBooked, statementLineCorrected] as const
