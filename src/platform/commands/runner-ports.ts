import type { Clock } from '../../kernel/clock.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { EventCodec } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { BackgroundScheduler } from './background-scheduler.ts'

/** Every bound of the command runner. All are settings; none is unlimited. */
export type RunnerLimits = {
  /** A batch is cut at this many commands. */
  readonly batchCommands: number
  /** … or before its events exceed this many bytes. One command alone may exceed it (its appends: up to 1 MiB each). */
  readonly batchBytes: number
  /** Batches of ordinary commands in flight at once, over disjoint streams. */
  readonly batchesInFlight: number
  /** The longest that commands wait for others to share their batch, milliseconds; 0 for not at all. */
  readonly batchWindowMs: number
  /** Commands that may wait; one more is refused with CommandOverload. */
  readonly queueLength: number
  /** How long a command may wait, decisions that did not land included, before CommandOverload. */
  readonly queueWaitMs: number
  /** How often a command is decided again after conflicts before CommandOverload. */
  readonly redecisions: number
  /** How long clients wait for the outcome of an append whose answer was lost, before CommandOverload. */
  readonly frozenWaitMs: number
  /** The first pause before identical bytes are sent again; it doubles up to `resendMaxMs`. */
  readonly resendFirstMs: number
  readonly resendMaxMs: number
  /** An append that is not answered for this long counts as one whose answer was lost. */
  readonly appendTimeoutMs: number
  readonly readTimeoutMs: number
  /** Streams in one set-based read, and such reads under way at once. */
  readonly readStreams: number
  readonly readsInFlight: number
  /** Events of one stream that are read and folded at once; what was folded is kept when a later read fails. */
  readonly readEvents: number
  /** How long after its last conflict a stream counts as contended. */
  readonly contendedMs: number
  /** How long to wait for a contended stream's lock before going on without it. */
  readonly lockWaitMs: number
  /** Groups of contended streams that are served at once. */
  readonly contendedLanes: number
  /**
   * Folds that are kept while nobody uses them: at most this many, and this many entries in all (`Fold.snapshot.entries`).
   * When the wallets of a busy time do not fit, each is folded anew again and again: 300 orders a second, not 5,500.
   */
  readonly cacheStreams: number
  readonly cacheEntries: number
  /** The same for streams that are never snapshotted, which are short and mostly used once. */
  readonly cacheShortStreams: number
  /** The same for streams that are used once. */
  readonly cacheOnceStreams: number
  /** A snapshot is due after max(this, half the entries in the state) new events … */
  readonly snapshotMinEvents: number
  /** … or, of a large state, after max(this, an eighth of the entries): what a first command has to fold is bounded. */
  readonly snapshotTailEvents: number
  /** … and not sooner than this after the stream's last one, unless twice as many of the last kind came. */
  readonly snapshotEveryMs: number
  /** Snapshots that may wait to be written; more are left for later. */
  readonly snapshotQueue: number
  /** `close` takes a snapshot of what has more new events than this, the most first … */
  readonly snapshotCloseEvents: number
  /** … and begins none after this time, milliseconds. */
  readonly snapshotCloseMs: number
  /** How long `close` waits for what is under way. */
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
  frozenWaitMs: 2_000,
  resendFirstMs: 50,
  resendMaxMs: 2_000,
  appendTimeoutMs: 30_000,
  readTimeoutMs: 10_000,
  readStreams: 500,
  readsInFlight: 2,
  readEvents: 1_000,
  contendedMs: 1_000,
  lockWaitMs: 500,
  contendedLanes: 4,
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

/** A state as of one event of its stream. It may be thrown away at any time. */
export type Snapshot = {
  readonly stream: StreamName
  readonly logId: string
  readonly fold: string
  /** `Fold.version`. */
  readonly version: number
  readonly revision: number
  /** The event at `revision`: a snapshot of a history that this log does not have is told by it. */
  readonly eventId: string
  /** Milliseconds of that event's `recordedAt`. */
  readonly recordedAtMs: number
  /** What `Fold.snapshot.toText` gave. */
  readonly state: string
}

export type SnapshotKey = Pick<Snapshot, 'stream' | 'logId' | 'fold' | 'version'>

/** Keeps the newest snapshot a stream and fold. Another log id or version is as good as none. */
export type SnapshotStore = {
  /** Those that exist, in one round trip. */
  load(keys: readonly SnapshotKey[]): Promise<readonly Snapshot[]>
  /** Replaces what is older or of another log or version. */
  save(snapshot: Snapshot): Promise<void>
}

/**
 * How the processes of one service take turns on a contended stream. It is a courtesy: nothing is wrong when a lock is
 * lost or not obtained, or an announcement is not heard.
 */
export type StreamLocks = {
  /** Locks all of the streams; null when they are not free within `waitMs`. */
  acquire(streams: readonly StreamName[], waitMs: number): Promise<StreamLease | null>
  /** Has the other processes take turns on the stream too: the one that wins every race would not notice by itself. */
  announce(stream: StreamName): void
  /** Calls back with every stream that another process announced. */
  onAnnounced(listener: (stream: StreamName) => void): void
}
export type StreamLease = { release(): Promise<void> }

export type RunnerMetrics = {
  /** One batch was answered by the log: its commands with appends, items, events, and milliseconds from send to answer. */
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

/** The part of pino that is used. */
export type RunnerLogger = {
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Where a crash test may kill the process. */
export type CrashPoint =
  | 'before-append'
  | 'after-append'
  | 'before-answer'
  | 'before-snapshot'
  | 'after-snapshot'
export type CrashHooks = { at(point: CrashPoint): void }

export type CommandRunnerDeps = {
  readonly log: EventLog
  readonly clock: Clock
  /** The field of an event that says of something that it happened after this time, and when; null: none. */
  readonly laterThan?: (
    event: DomainEvent,
    latest: string,
  ) => { readonly field: string; readonly at: string } | null
  readonly newEventId: () => string
  readonly codec: EventCodec
  readonly logger: RunnerLogger
  /** Without it states are folded from the first event. */
  readonly snapshots?: SnapshotStore
  /** Without it processes on a hot stream only race. */
  readonly streamLocks?: StreamLocks
  readonly metrics?: RunnerMetrics
  readonly hooks?: CrashHooks
  /** Told while a batch is under way: the time for work that can wait. */
  readonly backgroundScheduler?: Pick<BackgroundScheduler, 'begin' | 'end'>
  /** Overrides of `defaultLimits`. */
  readonly limits?: Partial<RunnerLimits>
}
