import type pg from 'pg'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Calendar } from '../../kernel/calendar.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import type { CloseStack } from '../../kernel/resource-scope.ts'
import type { BackgroundScheduler } from '../commands/background-scheduler.ts'
import type { CommandRunner } from '../commands/command.ts'
import type { RunnerHealth, RunnerPositions, RunnerWarmup } from '../commands/command-runner.ts'
import type { LogWait } from '../commands/wait-for-log.ts'
import type { AppendHealth } from '../eventstore/append-guards.ts'
import type { EventCodec } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { Db } from '../postgres/kysely.ts'
import type { LogFeed } from '../projections/feed.ts'
import type { ProjectionRunner } from '../projections/projection-runner.ts'
import type { CaughtUp, Reads } from '../projections/read-your-writes.ts'
import type { Assets } from '../ui/assets.ts'
import type { Keys } from '../vault/keys.ts'
import type { Scheduler } from '../work/scheduler.ts'

/** The parts that the server and the command line share: database, keys, log and the command runner for them. */
export type Core = {
  readonly keys: Keys
  /** The address of Postgres, with the password. */
  readonly postgresUrl: string
  /** The same database with the auditor's role; null: the auditor uses the role of `postgresUrl`. */
  readonly auditorUrl: string | null
  readonly pool: pg.Pool
  /** Typed queries over `pool`. */
  readonly db: Db
  readonly log: EventLog
  /** False: the log is in an EventStoreDB. */
  readonly isLogInPostgres: boolean
  /** Makes a start wait for the log. A command counts as a start until its end. Null if the log is in Postgres. */
  readonly logWait: LogWait | null
  /** Whether the log accepts appends. */
  readonly appends: AppendHealth
  readonly codec: EventCodec
  readonly runner: CommandRunner & RunnerHealth & RunnerWarmup & RunnerPositions
  /** The service's clock: Postgres's time and the development offset, independent of the machine's clock. */
  readonly clock: Clock
  /** Of the accounting time zone. */
  readonly calendar: Calendar
  /** Runs other work in the idle time between the commands of this process. */
  readonly backgroundScheduler: BackgroundScheduler
  /** Whether this process may decide commands: its clock is right and does not show a closed month. */
  readonly clockGuard: {
    /** How far the machine's clock was ahead of Postgres's at the last comparison, milliseconds; negative: behind. */
    aheadMs(): number
    /** Why this process may decide no command now; null: no problem. */
    problem(): string | null
    /** Compares the clocks and reads the closed months now. */
    check(): Promise<void>
  }
  readonly logger: Logger
  /** Runs the scheduled work of this process. */
  readonly scheduler: Scheduler
  /** Settles when the embedded Postgres ended unexpectedly, or when the log lost events that this process has seen. */
  readonly failed: Promise<Error>
  /** Finishes running work, then closes everything in order. */
  close(): Promise<void>
}

/** The projections for this process: it folds them, or follows those that another process folds. */
export type Projecting = Pick<
  ProjectionRunner,
  'progress' | 'lag' | 'caughtUp' | 'health' | 'pause' | 'resume'
> & {
  /** The only reader of the log in this process, for all other followers. */
  readonly feed: LogFeed
  stop(): Promise<void>
}

export const followIntervalMs = 500

/**
 * Resolves to true when the tables of a group exist (a first start replays the log), and to false if stopped before.
 */
export const waitForReadTables = async (
  { progress }: Pick<Projecting, 'progress'>,
  group: string,
  stopping: AbortSignal,
): Promise<boolean> => {
  while (!stopping.aborted) if (await progress.reached(group, 0, followIntervalMs)) return true
  return false
}

/** The input of a feature in a server: the core, the read models and the metrics. */
export type ServerCore = Core & {
  readonly projecting: Projecting
  /** Waits for the read models that customers read from. */
  readonly reads: Reads
  /** Waits for the read models that finance and resellers read from. */
  readonly bookReads: Reads
  readonly monotonicMs: MonotonicClock
  readonly registry: Registry
  /** For probes and metrics: few connections of their own, so that a locked table takes none from the requests. */
  readonly probing: Pick<Core, 'pool' | 'db'>
  readonly hooks: CrashHooks
  /** Resolves when the read models include the current log, or after a time limit. */
  readonly caughtUp: CaughtUp
  /** Scripts and styles of the console, by path. */
  readonly assets: Assets
  /** Closed with the server, in reverse order. */
  readonly closing: CloseStack
}

/** The log for a fold of the whole log while this process works: it yields to commands before each page. */
export const yieldingLog = ({
  log,
  backgroundScheduler,
}: Pick<Core, 'log' | 'backgroundScheduler'>): EventLog => ({
  ...log,
  readAll: async (...args: Parameters<EventLog['readAll']>) => {
    await backgroundScheduler.yieldToCommands()
    return log.readAll(...args)
  },
})
