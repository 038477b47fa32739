import type pg from 'pg'
import type { Logger } from 'pino'
import type { ClockGuard } from '../../app/clock-guard.ts'
import type { Config } from '../../app/config.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { BackgroundScheduler } from '../commands/background-scheduler.ts'
import type { CommandRunner } from '../commands/command.ts'
import type { RunnerHealth, RunnerWarmup } from '../commands/command-runner.ts'
import type { LogWait } from '../commands/wait-for-log.ts'
import type { AppendHealth } from '../eventstore/append-health.ts'
import type { EventCodec } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { LogFeed } from '../projections/feed.ts'
import type { ProjectionRunner } from '../projections/projection-runner.ts'
import type { Keys } from '../vault/keys.ts'
import type { Scheduler } from '../work/scheduler.ts'

/** What the server and the command line share: database, keys, log and the command runner over them. */
export type Core = {
  readonly config: Config
  readonly keys: Keys
  /** Where Postgres answers, with the password. */
  readonly postgresUrl: string
  readonly pool: pg.Pool
  readonly log: EventLog
  /** Waits for the log on behalf of a start; a command is a start to its end. Null where the log is in Postgres. */
  readonly logWait: LogWait | null
  /** Whether the log takes what is appended. */
  readonly appends: AppendHealth
  readonly codec: EventCodec
  readonly runner: CommandRunner & RunnerHealth & RunnerWarmup
  /** The service's clock: the system's and the development offset. */
  readonly clock: Clock
  /** When the commands of this process leave it time for other work. */
  readonly backgroundScheduler: BackgroundScheduler
  /** Whether this process may decide: its clock is right, and reads no month that is closed. */
  readonly clockGuard: Pick<ClockGuard, 'problem' | 'check'>
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
