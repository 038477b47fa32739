import { type EventOf, fact } from '../../platform/eventstore/fact.ts'
import { micros, text, time } from '../../terms/fields.ts'

/** What a provider's statement says of the service's own gateways, beside the payments that the ledgers have. */
export const statementLineBooked = fact('StatementLineBooked', {
  stream: 'statement-{line}',
  means:
    "A line of a provider's statement was booked: what the provider kept as a fee, paid out to the bank, or took back.",
  fields: {
    gateway: text("the service's gateway in the books, e.g. `stripe`"),
    reference: text("the line's id at the provider: with the gateway it is booked once"),
    category: text("the provider's own word for it, e.g. `payout`"),
    feeMicros: micros('either sign', 'above zero: the provider kept it; below: it gave it back'),
    payoutMicros: micros('either sign', 'above zero: it left the gateway for the bank; below: it came back'),
    happenedAt: time('when, by the statement'),
  },
})
export type StatementLineBooked = EventOf<typeof statementLineBooked>

export const statementFacts = [statementLineBooked] as const
