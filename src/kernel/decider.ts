import type { DomainEvent, RecordedEvent } from './event.ts'
import type { StreamName } from './streams.ts'

/** A stream that a command decides on. */
export type StreamRef<State> = {
  readonly stream: StreamName
  // biome-ignore lint/suspicious/noExplicitAny: a fold takes its own context's events only; the runner treats them as opaque
  readonly fold: Fold<State, any>
  /**
   * The stream is assumed to be absent and is not read (an order under a new key). If it does exist, the expectation
   * `noStream` makes the append fail. The stream is read before an answer without appends.
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
  /** The maximum of the clock of the process and the last event time of the command's streams, milliseconds. */
  readonly nowMs: number
}

/**
 * The result of a decision: events for streams, in the order of writing, and the answer to the caller.
 * Without events, the answer is a refusal or reports an existing result. The runner then returns it only if the states
 * were read from the log after the command arrived.
 */
export type CommandDecision<Answer> = { readonly appends: Appends; readonly answer: Answer }

/** Events for streams, in the order of writing. No entry is empty. */
export type Appends = readonly {
  readonly stream: StreamName
  readonly events: readonly DomainEvent[]
  /** Adjacent entries with this flag may be appended in any order. */
  readonly anyOrder?: true
}[]

/**
 * The new events of a stream, oldest first. No events: the state is already as requested. `Made` goes to the caller.
 */
export type Decided<Event extends DomainEvent, Made = object> = {
  readonly outcome: 'decided'
  readonly events: readonly Event[]
} & Made

/** A decision without events, and its reason. */
export type Refused<Refusal> = { readonly outcome: 'refused'; readonly refusal: Refusal }

/** The result of a pure decision on one stream. `handle` (commands/command.ts) appends its events. */
export type Decision<Event extends DomainEvent, Refusal, Made = object> =
  | Decided<Event, Made>
  | Refused<Refusal>

export const decided = <Event extends DomainEvent>(...events: readonly Event[]): Decided<Event> => ({
  outcome: 'decided',
  events,
})

export const refused = <Refusal>(refusal: Refusal): Refused<Refusal> => ({ outcome: 'refused', refusal })

/** An event with its revision and time. During a decision, `revision` is the future revision of the event. */
export type FoldedEvent<Event extends DomainEvent> = Event &
  Pick<RecordedEvent, 'revision'> & {
    /** Milliseconds of `recordedAt`. */
    readonly recordedAtMs: number
  }

/**
 * The state after events that are decided but not appended. The events have no revision yet, so this is only for folds
 * that do not read the revision.
 */
export const applyDecided = <State, Event extends DomainEvent>(
  { evolve }: Pick<Fold<State, Event>, 'evolve'>,
  state: State,
  events: readonly Event[],
  nowMs: number,
): State =>
  events.reduce((before, event) => evolve(before, { ...event, revision: 0, recordedAtMs: nowMs }), state)

/**
 * Derives the state of one kind of stream from its events. `evolve` is pure and returns a new state that shares
 * structure with the old one (large collections are Immutable maps). So the state of a decision that is not appended is
 * simply discarded.
 */
export type Fold<State, Event extends DomainEvent = DomainEvent> = {
  /** The kind of the snapshots, e.g. `ledger`. */
  readonly name: string
  /** Incremented with each change of the state's type or of `evolve`. Older snapshots are ignored. */
  readonly version: number
  readonly initial: State
  /** Most streams of this kind get one command. Only the last few unused states are cached. */
  readonly usedOnce?: true
  evolve(state: State, event: FoldedEvent<Event>): State
  /** Absent for short streams, which need no snapshots. */
  readonly snapshot?: {
    /** Returns JSON text, which is readable in Postgres. */
    toText(state: State): string
    fromText(text: string): State
    /**
     * Whether the state is consistent with the last event of the snapshot. Decisions on a wrong snapshot would stay in
     * the log permanently, so an inconsistent snapshot is not used. Absent if the events contain nothing of the state.
     */
    agrees?(state: State, event: DomainEvent): boolean
    /**
     * The size of the state, in entries of about 200 bytes each. The next snapshot is due after half as many events
     * (1,000 at least; see `RunnerLimits` for the whole rule). This is also the size of the state in the fold cache.
     */
    entries(state: State): number
    /** Number of new events until the next snapshot, for folds with long events. Without it, `entries` decides. */
    readonly everyEvents?: number
  }
}
