import type {
  DecideContext,
  Decided,
  Decision,
  Refused,
  StatesOf,
  StreamRef,
  StreamRefs,
} from '../../kernel/decider.ts'
import type { Cause, DomainEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { decode } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { CommandRunner } from './command.ts'

/** An accepted command. Its events are in the log. */
export type Done<Made = object> = {
  readonly outcome: 'done'
  /** False if the state was already as requested, and nothing was appended. */
  readonly changed: boolean
  /** The position of the last appended event; null if none was appended. */
  readonly position: number | null
  /** The time of the decision and of its events, milliseconds. */
  readonly atMs: number
} & Made

/** The result of a command on one stream. */
export type Result<Refusal, Made = object> = Done<Made> | Refused<Refusal>

/** The name and the cause of a command. Later reads of `account` must see its events. */
export type CommandContext = Cause & {
  /** For logs and metrics, e.g. `block-account`. */
  readonly name: string
  readonly account?: AccountId
}

/** Drops other fields of the argument, such as those of a command line's context. */
const causeOf = ({ name, actor, correlationId, account }: CommandContext): CommandContext => ({
  name,
  actor,
  correlationId,
  ...(account !== undefined && { account }),
})

/** The stream that the decision reads and writes, and other streams that it only reads. */
export type Decider<State, Others extends StreamRefs> = StreamRef<State> & { readonly others?: Others }

/** The result type of `handle` for a decision. A decision that never refuses gives only `Done`. */
export type HandleResult<Made> =
  Made extends Refused<infer Refusal>
    ? Refused<Refusal>
    : Made extends Decided<DomainEvent>
      ? Done<Omit<Made, 'outcome' | 'events'>>
      : never

/**
 * Decides on one stream and appends the events. The decision is pure and may be called several times. The result contains
 * all other fields of the decision.
 *
 * ```ts
 * await handle(runner, { ...cause, name: 'unblock-account' }, { stream, fold: accountFold }, decideUnblock)
 * ```
 *
 * Rejects as the command runner does.
 */
export const handle = async <
  State,
  Made extends Decision<DomainEvent, unknown>,
  Others extends StreamRefs = Record<never, never>,
>(
  runner: CommandRunner,
  commandContext: CommandContext,
  { others, ...decider }: Decider<State, Others>,
  decide: (state: State, context: DecideContext & { readonly others: StatesOf<Others> }) => Made,
): Promise<HandleResult<Made>> => {
  const { answer, position } = await runner.run<StreamRefs, { decision: Made; atMs: number }>({
    ...causeOf(commandContext),
    streams: { ...others, decider },
    decide: ({ decider: state, ...states }, { nowMs }) => {
      const decision = decide(state as State, { nowMs, others: states as StatesOf<Others> })
      const events = decision.outcome === 'decided' ? decision.events : []
      const appends = events.length === 0 ? [] : [{ stream: decider.stream, events }]
      return { appends, answer: { decision, atMs: nowMs } }
    },
  })
  const { decision, atMs } = answer
  if (decision.outcome === 'refused') return decision as unknown as HandleResult<Made>
  const { outcome: _, events, ...decidedFields } = decision
  return {
    ...decidedFields,
    outcome: 'done',
    changed: events.length > 0,
    position,
    atMs,
  } as unknown as HandleResult<Made>
}

/** The current state of a stream in the log. Rejects as the command runner does. */
export const readState = async <State>(
  runner: CommandRunner,
  commandContext: CommandContext,
  ref: StreamRef<State>,
): Promise<State> => {
  const { answer } = await runner.run<{ read: StreamRef<State> }, State>({
    ...causeOf(commandContext),
    streams: { read: ref },
    decide: ({ read }) => ({ appends: [], answer: read as State }),
  })
  return answer
}

/** The current state of a short stream in the log and the position of its last event; null for an absent stream. */
export const readStreamState = async <State>(
  log: Pick<EventLog, 'readStream'>,
  { stream, fold }: StreamRef<State>,
): Promise<{ readonly state: State; readonly position: number | null }> => {
  let state: State = fold.initial
  let position: number | null = null
  for await (const stored of log.readStream(stream)) {
    const { type, data, revision, metadata } = decode(stored)
    state = fold.evolve(state, { type, data, revision, recordedAtMs: Date.parse(metadata.recordedAt) })
    position = stored.position
  }
  return { state, position }
}
