import type { DomainEvent, RecordedEvent } from './event.ts'
import type { StreamName } from './streams.ts'

/** A stream that a command decides on. */
export type StreamRef<State> = {
  readonly stream: StreamName
  // biome-ignore lint/suspicious/noExplicitAny: a fold takes its own context's events only; the runner treats them as opaque
  readonly fold: Fold<State, any>
  /**
   * The stream is taken as not existing without a look at the log (an order under a fresh key). `noStream` on append
   * catches the case that it does, and it is read before anything is answered that appends nothing.
   */
  readonly assume?: 'absent'
}

// biome-ignore lint/suspicious/noExplicitAny: the state type is recovered per key by StatesOf
export type StreamRefs = Readonly<Record<string, StreamRef<any>>>
export type StatesOf<Refs extends StreamRefs> = {
  readonly [Key in keyof Refs]: Refs[Key] extends StreamRef<infer State> ? State : never
}

/** Inputs of a decision that are not state. */
export type DecideContext = {
  /** The larger of the process's clock and the last event time of the command's streams, milliseconds. */
  readonly nowMs: number
}

/**
 * What was decided: facts for streams in the order in which they are to be written, and the answer to the caller.
 * No facts: the answer is a refusal or tells of something that stands already; the runner then answers it only from
 * states that were read from the log after the command arrived.
 */
export type CommandDecision<Answer> = { readonly appends: Appends; readonly answer: Answer }

/** Facts for streams, in the order in which they are written; none of them is empty. */
export type Appends = readonly {
  readonly stream: StreamName
  readonly events: readonly DomainEvent[]
  /** It may land before or after those beside it that say the same. */
  readonly anyOrder?: true
}[]

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

/** A fact with when and where it was recorded. While deciding, `revision` is the one that it will get. */
export type FoldedEvent<Event extends DomainEvent> = Event &
  Pick<RecordedEvent, 'revision'> & {
    /** Milliseconds of `recordedAt`. */
    readonly recordedAtMs: number
  }

/**
 * The state after facts that were just decided and are not written yet. They have no revision: for folds, and uses of a
 * state, that do not look at it.
 */
export const applyDecided = <State, Event extends DomainEvent>(
  { evolve }: Pick<Fold<State, Event>, 'evolve'>,
  state: State,
  events: readonly Event[],
  nowMs: number,
): State =>
  events.reduce((before, event) => evolve(before, { ...event, revision: 0, recordedAtMs: nowMs }), state)

/**
 * How the state of one kind of stream comes from its events. `evolve` is pure and returns a new state that shares
 * structure with the old one (large collections are Immutable maps), so that a decision that did not land is dropped
 * by dropping the reference.
 */
export type Fold<State, Event extends DomainEvent = DomainEvent> = {
  /** Names the snapshot's kind, e.g. `ledger`. */
  readonly name: string
  /** Rises with every change of the state's shape or of `evolve`: older snapshots are thrown away. */
  readonly version: number
  readonly initial: State
  /** Streams of this kind are mostly decided on once: only the last few are kept in memory while nobody uses them. */
  readonly usedOnce?: true
  evolve(state: State, event: FoldedEvent<Event>): State
  /** Left out: streams of this kind are short and never snapshotted. */
  readonly snapshot?: {
    /** JSON text, for Postgres keeps it as text that people can read. */
    toText(state: State): string
    fromText(text: string): State
    /**
     * Whether the state can be what this event left, as far as the event says. What is decided on a snapshot stands in the
     * log for ever, so one that does not agree with its event is not used. Left out: events say nothing of the state.
     */
    agrees?(state: State, event: DomainEvent): boolean
    /**
     * How much the state holds, in facts of some 200 bytes each. Its next snapshot is due after half as many events (1,000
     * at least; `RunnerLimits` has the whole rule), and this is its weight in the cache of folds.
     */
    entries(state: State): number
    /** After how many new events the next snapshot is due, where events are long. Left out: by `entries`. */
    readonly everyEvents?: number
  }
}
