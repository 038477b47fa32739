import type { CommandDecision, DecideContext, StatesOf, StreamRefs } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { isOutage } from '../eventstore/errors.ts'

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

/** Whether the same work may succeed later without a change: an outage, or a service that takes no commands just now. */
export const isTemporary = (error: unknown): boolean => isOutage(error) || error instanceof CommandOverload
