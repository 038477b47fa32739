import { type Decision, decided } from '../../platform/eventstore/decision.ts'
import type { LedgerEvent } from './events.ts'

/** What a decision on a wallet gives: the one fact that happens, or why nothing does. */
export type LedgerDecision<Event extends LedgerEvent, Refusal> = Decision<Event, Refusal, Moves<Event>>

type Moves<Event extends LedgerEvent> = {
  readonly events: readonly [Event]
  /** What the fact leaves in the wallet, less open holds. */
  readonly availableAfterMicros: number
}

export const moves = <Event extends LedgerEvent>(event: Event): LedgerDecision<Event, never> => ({
  ...decided(event),
  events: [event],
  availableAfterMicros: event.data.availableAfterMicros,
})
