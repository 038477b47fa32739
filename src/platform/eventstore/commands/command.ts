import type { AccountId } from '../../../kernel/ids.ts'
import type { StreamName } from '../../../terms/streams.ts'
import type { Cause, DomainEvent } from '../event.ts'
import type { Fold } from '../fold.ts'

/** A stream that a command decides on. */
export type StreamRef<State> = {
  readonly stream: StreamName
  // biome-ignore lint/suspicious/noExplicitAny: a fold takes its own room's events only; the runner treats them as opaque
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
export type Appends = readonly { readonly stream: StreamName; readonly events: readonly DomainEvent[] }[]

export type Command<Refs extends StreamRefs, Answer> = Cause & {
  /** For logs and metrics, e.g. `place-order`. */
  readonly name: string
  readonly streams: Refs
  /** Pure. It may be called several times, on newer states. A throw fails this command only. */
  decide(states: StatesOf<Refs>, context: DecideContext): CommandDecision<Answer>
  readonly causationId?: string | null
  /** The account whose later reads must see this command's events. */
  readonly account?: AccountId
}

export type CommandOutcome<Answer> = {
  readonly answer: Answer
  /** The position of the last event that the command wrote; null when it wrote none. */
  readonly position: number | null
}

/**
 * Runs commands one batch after another (docs/decisions/0003-command-runner.md).
 * `run` rejects with CommandOverload (queue full, frozen stream, log unreachable: nothing is known to be written, or
 * the outcome is unknown; the caller retries and converges) or with what `decide` threw.
 */
export type CommandRunner = {
  run<Refs extends StreamRefs, Answer>(command: Command<Refs, Answer>): Promise<CommandOutcome<Answer>>
  /** Finishes what waits and is in flight, then refuses all else. */
  close(): Promise<void>
}

/** 503 with `Retry-After`: the command was not answered; sending it again under the same key converges. */
export class CommandOverload extends Error {
  override readonly name = 'CommandOverload'
  /** Whole seconds, at least 1. */
  readonly retryAfterS: number
  constructor(message: string, retryAfterS: number, options?: ErrorOptions) {
    super(message, options)
    this.retryAfterS = retryAfterS
  }
}
