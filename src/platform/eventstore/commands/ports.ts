import type { Clock } from '../../../kernel/clock.ts'
import type { Lulls } from '../../../kernel/lulls.ts'
import type { StreamName } from '../../../terms/streams.ts'
import type { EventCodec } from '../codec.ts'
import type { DomainEvent } from '../event.ts'
import type { EventLog } from '../port.ts'
import type { RunnerLimits } from './limits.ts'

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
  readonly lulls?: Pick<Lulls, 'begin' | 'end'>
  /** Overrides of `defaultLimits`. */
  readonly limits?: Partial<RunnerLimits>
}
