import type pg from 'pg'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import type { CloseStack } from '../../kernel/resource-scope.ts'
import type { BackgroundScheduler } from '../commands/background-scheduler.ts'
import type { CommandRunner } from '../commands/command.ts'
import type { RunnerHealth, RunnerWarmup } from '../commands/command-runner.ts'
import type { LogWait } from '../commands/wait-for-log.ts'
import type { AppendHealth } from '../eventstore/append-health.ts'
import type { EventCodec } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { LogFeed } from '../projections/feed.ts'
import type { ProjectionRunner } from '../projections/projection-runner.ts'
import type { CaughtUp, Reads } from '../projections/read-your-writes.ts'
import type { Assets } from '../ui/assets.ts'
import type { Keys } from '../vault/keys.ts'
import type { Scheduler } from '../work/scheduler.ts'

/** What the server and the command line share: database, keys, log and the command runner over them. */
export type Core = {
  readonly keys: Keys
  /** Where Postgres answers, with the password. */
  readonly postgresUrl: string
  readonly pool: pg.Pool
  readonly log: EventLog
  /** False: the log is in an EventStoreDB. */
  readonly isLogInPostgres: boolean
  /** Waits for the log on behalf of a start; a command is a start to its end. Null where the log is in Postgres. */
  readonly logWait: LogWait | null
  /** Whether the log takes what is appended. */
  readonly appends: AppendHealth
  readonly codec: EventCodec
  readonly runner: CommandRunner & RunnerHealth & RunnerWarmup
  /** The service's clock: Postgres's time and the development offset, whatever the machine's clock reads. */
  readonly clock: Clock
  /** When the commands of this process leave it time for other work. */
  readonly backgroundScheduler: BackgroundScheduler
  /** Whether this process may decide: its clock is right, and reads no month that is closed. */
  readonly clockGuard: {
    /** How far the machine's clock was ahead of Postgres's at the last comparison, milliseconds; below zero behind. */
    aheadMs(): number
    /** Why this process may decide nothing now; null: nothing is wrong. */
    problem(): string | null
    /** Compares the clocks and reads the closed months now. */
    check(): Promise<void>
  }
  readonly logger: Logger
  /** Runs what this process does by itself. */
  readonly scheduler: Scheduler
  /** Settles when the embedded Postgres ended by itself, or the log lost events that this process knows. */
  readonly failed: Promise<Error>
  /** Finishes what runs, then closes everything in turn. */
  close(): Promise<void>
}

/** The projections as this process sees them: it folds them, or follows those that another process folds. */
export type Projecting = Pick<
  ProjectionRunner,
  'progress' | 'lag' | 'caughtUp' | 'health' | 'pause' | 'resume'
> & {
  /** The one reader of the log in this process, for whatever else follows it. */
  readonly feed: LogFeed
  stop(): Promise<void>
}

export const followIntervalMs = 500

/** Resolves once the tables of a group are made (a first start replays the log); false when stopped before. */
export const waitForReadTables = async (
  { progress }: Pick<Projecting, 'progress'>,
  group: string,
  stopping: AbortSignal,
): Promise<boolean> => {
  while (!stopping.aborted) if (await progress.reached(group, 0, followIntervalMs)) return true
  return false
}

/** What features are opened with in a server: the core, the read models, and what a server measures. */
export type ServerCore = Core & {
  readonly projecting: Projecting
  /** Waits for the read models that customers read from. */
  readonly reads: Reads
  /** Waits for the read models that finance and resellers read from. */
  readonly bookReads: Reads
  readonly monotonicMs: MonotonicClock
  readonly registry: Registry
  readonly hooks: CrashHooks
  /** Resolves once the read models hold what is in the log now, or a bound has passed. */
  readonly caughtUp: CaughtUp
  /** Scripts and styles of the console, by path. */
  readonly assets: Assets
  /** Closed with the server, last first. */
  readonly closing: CloseStack
}

/** The log for a fold of all of it beside the work of this process: it yields to commands before each page. */
export const yieldingLog = ({
  log,
  backgroundScheduler,
}: Pick<Core, 'log' | 'backgroundScheduler'>): EventLog => ({
  ...log,
  readAll: async (...asked: Parameters<EventLog['readAll']>) => {
    await backgroundScheduler.yieldToCommands()
    return log.readAll(...asked)
  },
})
