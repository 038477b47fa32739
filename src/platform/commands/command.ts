import type { Clock } from '../../kernel/clock.ts'
import type {
  CommandDecision,
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
import type { StreamName } from '../../kernel/streams.ts'
import { decode, type EventCodec } from '../eventstore/codec.ts'
import { isOutage } from '../eventstore/errors.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { BackgroundScheduler } from './background-scheduler.ts'

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
  /** The position of the last event that the command appended; null without events. */
  readonly position: number | null
}

/**
 * Runs commands in batches (command-runner.ts). `run` rejects with CommandOverload if the queue is full, the log cannot
 * be reached, or the outcome of an append is unknown. The caller then repeats the command under the same key. `run`
 * rejects with the error of `decide`, too.
 */
export type CommandRunner = {
  run<Refs extends StreamRefs, Answer>(command: Command<Refs, Answer>): Promise<CommandOutcome<Answer>>
  /** Finishes the commands in the queue and in flight. Rejects new ones. */
  close(): Promise<void>
}

/** Answered as 503 with `Retry-After`. The command can be repeated safely under the same key. */
export class CommandOverload extends Error {
  override readonly name = 'CommandOverload'
  /** Whole seconds, at least 1. */
  readonly retryAfterS: number
  constructor(message: string, retryAfterS: number, options?: ErrorOptions) {
    super(message, options)
    this.retryAfterS = retryAfterS
  }
}

/** Whether a later attempt may succeed without a change: an outage or an overload. */
export const isTemporary = (error: unknown): boolean => isOutage(error) || error instanceof CommandOverload

/** All limits of the command runner. */
export type RunnerLimits = {
  /** Maximum number of commands in a batch. */
  readonly batchCommands: number
  /** Maximum size of the events of a batch, bytes. A single command may exceed it, with appends of up to 1 MiB each. */
  readonly batchBytes: number
  /** Ordinary batches in flight at the same time, on disjoint streams. */
  readonly batchesInFlight: number
  /** Maximum wait of a batch for more commands, milliseconds; 0: no wait. */
  readonly batchWindowMs: number
  /** Maximum number of commands in the queue. Further commands are rejected with CommandOverload. */
  readonly queueLength: number
  /** Maximum time of a command in the queue, including repeated decisions, before CommandOverload. */
  readonly queueWaitMs: number
  /** Maximum number of repeated decisions of a command after conflicts, before CommandOverload. */
  readonly redecisions: number
  /** Maximum wait of a client for an unknown outcome, before CommandOverload. */
  readonly unknownOutcomeWaitMs: number
  /** The first pause before the same bytes are sent again. It doubles up to `resendMaxMs`. */
  readonly resendFirstMs: number
  readonly resendMaxMs: number
  /** After this time without an answer, the outcome of an append is unknown. */
  readonly appendTimeoutMs: number
  readonly readTimeoutMs: number
  /** Streams in one set-based read. */
  readonly readStreams: number
  /** Set-based reads in progress at the same time. */
  readonly readsInFlight: number
  /** Maximum number of events of a stream in one read. */
  readonly readEvents: number
  /** A stream is contended for this time after its last conflict. */
  readonly contendedMs: number
  /** Maximum wait for the lock of a contended stream. Then the commands run without it. */
  readonly lockWaitMs: number
  /** Maximum number of groups of contended streams at the same time. */
  readonly contendedGroups: number
  /**
   * Maximum number of unused folds in the cache, and of their entries (`Fold.snapshot.entries`). If the busy wallets do
   * not fit, they are folded again for each command: 300 instead of 5,500 orders a second.
   */
  readonly cacheStreams: number
  readonly cacheEntries: number
  /** The same for streams without snapshots. These are short and mostly used once. */
  readonly cacheShortStreams: number
  /** The same for streams that are used once. */
  readonly cacheOnceStreams: number
  /** A snapshot is due after max(this, half the entries in the state) new events. */
  readonly snapshotMinEvents: number
  /**
   * A snapshot of a large state is due after max(this, an eighth of its entries), to limit the events that a first
   * command reads.
   */
  readonly snapshotTailEvents: number
  /**
   * Minimum time between two snapshots of a stream. It does not apply after twice as many events as
   * `snapshotTailEvents` requires.
   */
  readonly snapshotEveryMs: number
  /** Maximum number of snapshots in the queue. */
  readonly snapshotQueue: number
  /** `close` writes snapshots of streams with more new events than this, the most events first. */
  readonly snapshotCloseEvents: number
  /** `close` starts no snapshot after this time, milliseconds. */
  readonly snapshotCloseMs: number
  /** Maximum wait of `close` for commands in progress. */
  readonly closeMs: number
}

export const defaultLimits: RunnerLimits = {
  batchCommands: 200,
  batchBytes: 524_288,
  batchesInFlight: 1,
  batchWindowMs: 4,
  queueLength: 10_000,
  queueWaitMs: 5_000,
  redecisions: 50,
  unknownOutcomeWaitMs: 2_000,
  resendFirstMs: 50,
  resendMaxMs: 2_000,
  appendTimeoutMs: 30_000,
  readTimeoutMs: 10_000,
  readStreams: 500,
  readsInFlight: 2,
  readEvents: 1_000,
  contendedMs: 1_000,
  lockWaitMs: 500,
  contendedGroups: 4,
  cacheStreams: 50_000,
  cacheEntries: 8_000_000,
  cacheShortStreams: 4_000,
  cacheOnceStreams: 100,
  snapshotMinEvents: 1_000,
  snapshotTailEvents: 10_000,
  snapshotEveryMs: 30_000,
  snapshotQueue: 100,
  snapshotCloseEvents: 200,
  snapshotCloseMs: 5_000,
  closeMs: 15_000,
}

/** A state as of one event of its stream. It can be deleted at any time. */
export type Snapshot = {
  readonly stream: StreamName
  readonly logId: string
  readonly fold: string
  /** `Fold.version`. */
  readonly version: number
  readonly revision: number
  /** The event at `revision`. It shows whether the snapshot belongs to this log. */
  readonly eventId: string
  /** Milliseconds of that event's `recordedAt`. */
  readonly recordedAtMs: number
  /** The text of `Fold.snapshot.toText`. */
  readonly state: string
}

type SnapshotKey = Pick<Snapshot, 'stream' | 'logId' | 'fold' | 'version'>

/** Stores the newest snapshot of each stream and fold. Snapshots of another log or version are not used. */
export type SnapshotStore = {
  /** Returns those of these snapshots that exist, in one round trip. */
  load(keys: readonly SnapshotKey[]): Promise<readonly Snapshot[]>
  /** Replaces an older snapshot, and one of another log or version. */
  save(snapshot: Snapshot): Promise<void>
}

/**
 * Lets the processes of one service take turns on a contended stream. Correctness does not depend on it: locks and
 * announcements may be lost.
 */
export type StreamLocks = {
  /** Locks all of the streams; null if they are not free within `waitMs`. */
  acquire(streams: readonly StreamName[], waitMs: number): Promise<StreamLease | null>
  /** Announces to other processes that the stream is contended. A process that wins every race does not detect it. */
  announce(stream: StreamName): void
  /** Calls the listener with each stream that another process announced. */
  onAnnounced(listener: (stream: StreamName) => void): void
}
export type StreamLease = { release(): Promise<void> }

export type RunnerMetrics = {
  /** The log answered a batch: its commands with appends, items, events, and the milliseconds from send to answer. */
  onBatch?(batch: {
    readonly commands: number
    readonly items: number
    readonly events: number
    readonly ms: number
  }): void
  onConflict?(stream: StreamName): void
  onOverload?(reason: OverloadReason): void
}
export type OverloadReason = 'queue-full' | 'wait' | 'redecisions' | 'frozen' | 'unavailable' | 'closed'

export type RunnerLogger = {
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** The points at which a crash test can kill the process. */
export type CrashPoint =
  | 'before-append'
  | 'after-append'
  | 'before-answer'
  | 'before-snapshot'
  | 'after-snapshot'
export type CrashHooks = { at(point: CrashPoint): void }

export type CommandRunnerDependencies = {
  readonly log: EventLog
  readonly clock: Clock
  /** A field of the event for a past time whose value is after `latest`, and the value. Null without such a field. */
  readonly laterThan?: (
    event: DomainEvent,
    latest: string,
  ) => { readonly field: string; readonly at: string } | null
  readonly newEventId: () => string
  readonly codec: EventCodec
  readonly logger: RunnerLogger
  /** Rejects every command with CommandOverload while it returns a problem, such as a wrong clock. */
  readonly problem?: () => string | null
  /** Without it, states are folded from the first event. */
  readonly snapshots?: SnapshotStore
  /** Without it, processes do not take turns on a contended stream. */
  readonly streamLocks?: StreamLocks
  readonly metrics?: RunnerMetrics
  readonly hooks?: CrashHooks
  /** Background work runs between `begin` and `end` of a batch. */
  readonly backgroundScheduler?: Pick<BackgroundScheduler, 'begin' | 'end'>
  /** Overrides of `defaultLimits`. */
  readonly limits?: Partial<RunnerLimits>
}

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
type Decider<State, Others extends StreamRefs> = StreamRef<State> & { readonly others?: Others }

/** The result type of `handle` for a decision. A decision that never refuses gives only `Done`. */
type HandleResult<Made> =
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
