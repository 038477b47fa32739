import type { LedgerEvent } from './events.ts'

/** What a decision on a wallet gives: the fact that happens, or the reason why nothing does. */
export type LedgerDecision<Event extends LedgerEvent, Refusal> =
  | {
      readonly outcome: 'decided'
      readonly events: readonly [Event]
      /** What the fact leaves in the wallet, less open holds. */
      readonly availableAfterMicros: number
    }
  | { readonly outcome: 'refused'; readonly refusal: Refusal }

export const decided = <Event extends LedgerEvent>(event: Event): LedgerDecision<Event, never> => ({
  outcome: 'decided',
  events: [event],
  availableAfterMicros: event.data.availableAfterMicros,
})

export const refused = <Refusal>(refusal: Refusal): LedgerDecision<never, Refusal> => ({
  outcome: 'refused',
  refusal,
})
