import type { DomainEvent } from './event.ts'

/** What happens on a stream, oldest first; no events: what was asked for is so already. `Made` goes to the caller. */
export type Decided<Event extends DomainEvent, Made = object> = {
  readonly outcome: 'decided'
  readonly events: readonly Event[]
} & Made

/** Nothing happens, and why. */
export type Refused<Refusal> = { readonly outcome: 'refused'; readonly refusal: Refusal }

/** What a pure decision on one stream gives; `handle` (commands/handle.ts) writes it. */
export type Decision<Event extends DomainEvent, Refusal, Made = object> =
  | Decided<Event, Made>
  | Refused<Refusal>

export const decided = <Event extends DomainEvent>(...events: readonly Event[]): Decided<Event> => ({
  outcome: 'decided',
  events,
})

export const refused = <Refusal>(refusal: Refusal): Refused<Refusal> => ({ outcome: 'refused', refusal })
