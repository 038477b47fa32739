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

/** A command that was decided and is in the log. */
export type Done<Made = object> = {
  readonly outcome: 'done'
  /** False when what was asked for was so already; nothing was written then. */
  readonly changed: boolean
  /** The position of the last event that was written; null when none was. */
  readonly position: number | null
  /** When it was decided: the time that its events carry, milliseconds. */
  readonly atMs: number
} & Made

/** What a command on one stream comes to. */
export type Result<Refusal, Made = object> = Done<Made> | Refused<Refusal>

/** Who commands what; `account` is the one whose later reads must see it. */
export type CommandContext = Cause & {
  /** For logs and metrics, e.g. `block-account`. */
  readonly name: string
  readonly account?: AccountId
}

/** What is handed in may be more than this, such as the whole context of a command line. */
const causeOf = ({ name, actor, correlationId, account }: CommandContext): CommandContext => ({
  name,
  actor,
  correlationId,
  ...(account !== undefined && { account }),
})

/** The stream that is decided on and written to, and streams that the decision only looks at. */
export type Decider<State, Others extends StreamRefs> = StreamRef<State> & { readonly others?: Others }

/** What `handle` makes of a decision; one that never refuses is done for certain. */
export type HandleResult<Made> =
  Made extends Refused<infer Refusal>
    ? Refused<Refusal>
    : Made extends Decided<DomainEvent>
      ? Done<Omit<Made, 'outcome' | 'events'>>
      : never

/**
 * Decides on one stream and writes what was decided. The decision is pure and may be made several times. What it carries
 * beside its events is in the result.
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
  handling: CommandContext,
  { others, ...decider }: Decider<State, Others>,
  decide: (state: State, context: DecideContext & { readonly others: StatesOf<Others> }) => Made,
): Promise<HandleResult<Made>> => {
  const { answer, position } = await runner.run<StreamRefs, { decision: Made; atMs: number }>({
    ...causeOf(handling),
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
  const { outcome: _, events, ...made } = decision
  return {
    ...made,
    outcome: 'done',
    changed: events.length > 0,
    position,
    atMs,
  } as unknown as HandleResult<Made>
}

/** The state of a stream as the log has it now. Rejects as the command runner does. */
export const readState = async <State>(
  runner: CommandRunner,
  handling: CommandContext,
  ref: StreamRef<State>,
): Promise<State> => {
  const { answer } = await runner.run<{ read: StreamRef<State> }, State>({
    ...causeOf(handling),
    streams: { read: ref },
    decide: ({ read }) => ({ appends: [], answer: read as State }),
  })
  return answer
}

/** What a short stream comes to, as the log has it now, and the position of its last event; null for an absent stream. */
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
