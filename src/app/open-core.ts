import { hostname } from 'node:os'
import type pg from 'pg'
import { laterThan } from '../audit/checks/event-reader.ts'
import { periodCheck, startPeriodGuard } from '../features/finance/index.ts'
import { scraperHealth } from '../features/scrapers/index.ts'
import { createCalendar } from '../kernel/calendar.ts'
import type { Clock } from '../kernel/clock.ts'
import type { CrashHooks } from '../kernel/crash-points.ts'
import { newEventId } from '../kernel/ids.ts'
import { type CloseStack, closeOnFailure } from '../kernel/resource-scope.ts'
import { createBackgroundScheduler } from '../platform/commands/background-scheduler.ts'
import { defaultLimits, type RunnerLimits, type RunnerMetrics } from '../platform/commands/command.ts'
import { createCommandRunner } from '../platform/commands/command-runner.ts'
import { createPostgresStreamLocks } from '../platform/commands/contention.ts'
import { createPostgresSnapshots } from '../platform/commands/snapshots.ts'
import { guardAppends, monitorAppends } from '../platform/eventstore/append-guards.ts'
import { createCodec } from '../platform/eventstore/codec.ts'
import type { Core } from '../platform/feature/core.ts'
import { StartRefused, withStartFiles } from '../platform/postgres/errors.ts'
import { createKysely } from '../platform/postgres/kysely.ts'
import { requireMigrated } from '../platform/postgres/migrate.ts'
import { clientConfig, createPool } from '../platform/postgres/pool.ts'
import { checkKeys, type Keys, keyNames, keysInUse, loadKeys, storeKeys } from '../platform/vault/keys.ts'
import { createScheduler } from '../platform/work/scheduler.ts'
import type { Worker } from '../platform/work/worker.ts'
import {
  clockComparison,
  clockOffsetOf,
  guardTime,
  openPostgresClock,
  serviceClock,
  startClockGuard,
} from './clock.ts'
import { migrateDatabase, requireAuditorRole } from './migrate-database.ts'
import { allMigrations } from './migrations.ts'
import { type Database, type DatabaseOptions, databaseWaitMs, openDatabase } from './open-database.ts'
import { logWaitFor, logWaitMs, openLog } from './open-log.ts'

export type CoreOptions = DatabaseOptions & {
  /** The workers that the process may start; default: those of a command. */
  readonly workers?: readonly Worker[]
  /**
   * False: the process copies a log and signs nothing. Default: FAREBOX_SIGNING decides whether it signs what it
   * appends.
   */
  readonly signs?: false
  /** See `OpenOptions`. */
  readonly examines?: boolean
  /** Milliseconds since the epoch. */
  readonly systemClock: Clock
  /** A service clock other than the system's, as for the demo's history. It never goes back. */
  readonly clock?: Clock
  readonly hooks: CrashHooks
  readonly metrics?: RunnerMetrics
}

/** The workers that a command needs. A command does not run the workers of the service. */
const commandWorkers: readonly Worker[] = [clockComparison, periodCheck, scraperHealth]

/** For crash tests: the first snapshot of a stream is due at once, not after half a minute. */
const eagerSnapshots: Partial<RunnerLimits> = { snapshotMinEvents: 10, snapshotEveryMs: 0 }

/**
 * Opens Postgres (the embedded one without `DATABASE_URL`), checks the keys and opens the log. A server, an auditor and
 * a command that makes a Farebox migrate the database. Other commands change no table, right or owner of it.
 * @throws DataInUse, FareboxNotInstalled, DatabaseUnreachable, LockHeld, MigrationRefused, KeyRefused: the start must
 * stop with their message
 */
export const openCore = (options: CoreOptions): Promise<Core> =>
  closeOnFailure(async (closing) => openCoreOn(await openDatabase(closing, options), closing, options))

/**
 * The process that makes a database stores the fingerprints of its keys there. Commands use what is there.
 * @throws KeyRefused
 */
const openKeys = async (
  pool: pg.Pool,
  { config, role, makes = false, examines }: CoreOptions,
): Promise<Keys> => {
  const isMaking = role !== 'command' || makes
  const usedKeys = isMaking ? await keysInUse(pool) : keyNames
  const keys = await withStartFiles(config.dataDir, () => loadKeys(config, usedKeys))
  if (isMaking) await storeKeys(pool, keys)
  else if (!examines) await checkKeys(pool, keys)
  return keys
}

/** Whether the first start after an upgrade has rows to adopt. The code for that is loaded only then. */
const hasUncommitted = async (pool: pg.Pool): Promise<boolean> =>
  (await pool.query<{ any: boolean }>('select exists (select from vault.uncommitted) as any')).rows[0]
    ?.any === true

/** A moved clock makes events of the future, which no real log may have. @throws StartRefused */
const refuseOffset = async (
  { clockOffsetMs, demo }: CoreOptions['config'],
  pool: pg.Pool,
  log: Pick<Core['log'], 'head'>,
): Promise<void> => {
  if (clockOffsetMs === 0 || (demo && (await log.head()) === 0)) return
  if ((await pool.query('select from work.demo')).rowCount === 0)
    throw new StartRefused(
      'FAREBOX_CLOCK_OFFSET_MS is for a demo only, and this database has none. Unset it, or use another database with FAREBOX_DEMO=on.',
    )
}

/** `openCore` on a database that is already open. */
export const openCoreOn = async (
  { postgres, starting, pool, connection }: Database,
  closing: CloseStack,
  options: CoreOptions,
): Promise<Core> => {
  const { config, role, systemClock, logger, hooks, metrics } = options
  const { workers = commandWorkers } = options
  const { makes = role !== 'command', examines = false } = options
  const checkRole = async (): Promise<void> => {
    if (role === 'auditor') await requireAuditorRole(pool, postgres.auditorUrl !== null)
  }
  // Only the owner can grant the auditor its rights.
  if (postgres.ownerUrl === null) await checkRole()
  if (makes)
    await migrateDatabase({
      pool,
      postgres,
      ...(role === 'command' && { withinMs: databaseWaitMs }),
      waitMs: databaseWaitMs,
      logger,
      starting,
    })
  else if (!examines) await requireMigrated(pool, allMigrations)
  if (postgres.ownerUrl !== null) await checkRole()
  const keys = await openKeys(pool, options)

  const time = await openPostgresClock({ pool, systemClock })
  const clock: Clock = options.clock ?? serviceClock(time, config)
  const calendar = createCalendar(config.accountingTimeZone)
  const reportClock = (problem: string | null): void =>
    problem === null
      ? logger.warn('the clock is right again')
      : logger.error({ problem }, 'nothing is decided by this process until its clock is right')
  const scheduler = createScheduler({
    workers,
    pool,
    place: role === 'command' ? null : { host: hostname(), pid: process.pid },
    clock,
    logger,
  })
  closing.add(scheduler.stop)
  const clockGuard = startClockGuard({ scheduler, time, onChange: reportClock })
  closing.add(clockGuard.stop)

  const logSetBack = Promise.withResolvers<Error>()
  const logWait = config.eventStoreUrl === null ? null : logWaitFor(config.eventStoreUrl, options)
  const opened = await openLog(options, {
    pool,
    connection,
    sealKey: keys.seal,
    clock,
    // Event times are not checked if the options set a clock, as for the demo's history.
    clockOffsetMs: options.clock === undefined ? clockOffsetOf(config) : undefined,
    onSetBack: logSetBack.resolve,
  })
  if (opened.onActivity && role !== 'command') scheduler.follow(opened.onActivity)
  const waitingLog = logWait?.log(opened) ?? opened
  const guardedLog =
    options.clock === undefined
      ? guardAppends(waitingLog, {
          clock,
          problem: options.signs === false ? () => null : clockGuard.problem,
        })
      : waitingLog
  const { log, health: appends } = monitorAppends(guardedLog, {
    onChange: (problem) =>
      problem === null
        ? logger.warn('the log takes appends again')
        : logger.error({ err: problem }, 'the log takes no appends: every order is refused until it does'),
  })
  closing.add(() => {
    logWait?.end()
    return log.close()
  })
  // A server and an auditor wait for the log here and report it. A command may not need the log.
  if (role !== 'command') await log.logId()
  // An examination decides nothing.
  if (!examines) await refuseOffset(config, pool, log)
  const periodGuards = examines
    ? []
    : [await startPeriodGuard({ scheduler, log: opened, clock, calendar, onChange: reportClock })]
  for (const { stop } of periodGuards) closing.add(stop)
  const timeGuard = guardTime(time, [clockGuard, ...periodGuards])
  const codec = createCodec()
  const lockPool = createPool({ ...connection, max: defaultLimits.contendedGroups })
  closing.add(() => lockPool.end())
  const streamLocks = createPostgresStreamLocks({
    pool: lockPool,
    connection: clientConfig(connection),
    onTrouble: (what, error) => logger.warn({ err: error }, what),
  })
  closing.add(() => streamLocks.close())
  const backgroundScheduler = createBackgroundScheduler()
  const runner = createCommandRunner({
    log,
    backgroundScheduler,
    clock,
    problem: timeGuard.problem,
    laterThan,
    newEventId,
    codec,
    logger,
    hooks,
    snapshots: createPostgresSnapshots({ pool, keys, logger }),
    streamLocks,
    limits: {
      ...(config.crashAt?.point.endsWith('-snapshot') && eagerSnapshots),
      // A person waits longer than a request. The timeout of an EventStoreDB ends first: its message names the log.
      ...(role === 'command' && { queueWaitMs: 2 * logWaitMs.command }),
    },
    ...(metrics === undefined ? {} : { metrics }),
  })
  closing.add(() => runner.close())
  // A process that copies a log appends no events of its own, and a command leaves this to the service.
  if (role !== 'command' && (await hasUncommitted(pool))) {
    const { adoptCommitments } = await import('./adopt-commitments.ts')
    await adoptCommitments({ pool, keys, runner, logger })
  }
  return {
    keys,
    postgresUrl: connection.url,
    auditorUrl: postgres.auditorUrl,
    pool,
    db: createKysely(pool),
    log,
    isLogInPostgres: config.eventStoreUrl === null,
    logWait,
    appends,
    codec,
    runner,
    clock,
    calendar,
    backgroundScheduler,
    clockGuard: timeGuard,
    logger,
    scheduler,
    failed: Promise.race([postgres.failed, logSetBack.promise]),
    close: closing.close,
  }
}
