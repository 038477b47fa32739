import type pg from 'pg'
import type { Logger } from 'pino'
import { laterThan } from '../books/audit/past-times.ts'
import { sealKeyOf } from '../books/audit/seal-key.ts'
import { createBatchSigner, createSigningStop, type SignerOptions } from '../books/audit/signing/signer.ts'
import { startPeriodGuard } from '../books/periods/guard.ts'
import type { Clock } from '../kernel/clock.ts'
import { type Closing, opening } from '../kernel/closing.ts'
import type { CrashHooks } from '../kernel/crash.ts'
import { newEventId } from '../kernel/ids.ts'
import { createLulls, type Lulls } from '../kernel/lulls.ts'
import { type AppendHealth, watchAppends } from '../platform/eventstore/append-health.ts'
import { createCodec, type EventCodec } from '../platform/eventstore/codec.ts'
import { CommandOverload, type CommandRunner } from '../platform/eventstore/commands/command.ts'
import { defaultLimits, type RunnerLimits } from '../platform/eventstore/commands/limits.ts'
import type { RunnerMetrics } from '../platform/eventstore/commands/ports.ts'
import { createPostgresSnapshots } from '../platform/eventstore/commands/postgres-snapshots.ts'
import { createPostgresStreamLocks } from '../platform/eventstore/commands/postgres-stream-locks.ts'
import {
  createCommandRunner,
  type RunnerHealth,
  type RunnerWarmth,
} from '../platform/eventstore/commands/runner.ts'
import { parseAddress, shownAddress } from '../platform/eventstore/eventstoredb/address.ts'
import { createPatience, type Patience } from '../platform/eventstore/patient.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import { openPostgresLog } from '../platform/eventstore/postgres/log.ts'
import type { BatchSigner } from '../platform/eventstore/postgres/signing.ts'
import { refuseAbsent } from '../platform/postgres/absent.ts'
import { openPostgres } from '../platform/postgres/open.ts'
import { clientConfig, createPool, type PoolOptions } from '../platform/postgres/pool.ts'
import { withFilesIn } from '../platform/postgres/start-refused.ts'
import { checkKeys, type Keys, keysInUse, loadKeys } from '../platform/vault/keys.ts'
import { type ClockGuard, startClockGuard } from './clock-guard.ts'
import type { Config } from './config.ts'
import { migrateDatabase } from './migrate-database.ts'
import { openPool } from './open-pool.ts'

/** What the server and the command line share: database, keys, log and the command runner over them. */
export type Core = {
  readonly config: Config
  readonly keys: Keys
  /** Where Postgres answers, with the password. */
  readonly postgresUrl: string
  readonly pool: pg.Pool
  readonly log: EventLog
  /** Waits for the log on behalf of a start; a command is a start to its end. Null where the log is in Postgres. */
  readonly patience: Patience | null
  /** Whether the log takes what is appended. */
  readonly appends: AppendHealth
  readonly codec: EventCodec
  readonly runner: CommandRunner & RunnerHealth & RunnerWarmth
  /** The service's clock: the system's and the development offset. */
  readonly clock: Clock
  /** When the commands of this process leave it time for other work. */
  readonly lulls: Lulls
  /** Whether this process may decide: its clock is right, and reads no month that is closed. */
  readonly clockGuard: Pick<ClockGuard, 'problem' | 'check'>
  readonly logger: Logger
  /** Settles when the embedded Postgres ended by itself, or the log lost events that this process knows. */
  readonly failed: Promise<Error>
  /** Finishes what runs, then closes everything in turn. */
  close(): Promise<void>
}

export type CoreOptions = {
  readonly config: Config
  readonly role: 'server' | 'command'
  /** Whether a Farebox is made where there is none; left out: a server does. */
  readonly makes?: boolean
  /** Left out: the setting FAREBOX_SIGNING says whether this process signs what it appends. False: it copies a log. */
  readonly signs?: false
  /** Milliseconds since the epoch. */
  readonly systemClock: Clock
  /** The service's clock where it is another than the system's, as in the demo's history; it never goes back. */
  readonly clock?: Clock
  readonly logger: Logger
  readonly hooks: CrashHooks
  readonly metrics?: RunnerMetrics
}

const signerFor = ({ config, signs }: CoreOptions, signing: SignerOptions): BatchSigner | undefined => {
  if (signs === false) return undefined
  return config.signing ? createBatchSigner(signing) : createSigningStop(signing)
}

const openLog = async (
  options: CoreOptions,
  {
    pool,
    connection,
    sealKey,
    clock,
    onSetBack,
  }: {
    readonly pool: pg.Pool
    readonly connection: PoolOptions
    readonly sealKey: Uint8Array
    readonly clock: Clock
    readonly onSetBack: (error: Error) => void
  },
): Promise<EventLog> => {
  const { config, logger } = options
  const onTrouble = (what: string, error: unknown): void => logger.warn({ err: error }, what)
  if (config.eventStoreUrl !== null) {
    // Its client is a seventh of the files that a command reads, so it is read only where it is used.
    const { eventStoreDbLog } = await import('../platform/eventstore/eventstoredb/log.ts')
    return eventStoreDbLog({ url: config.eventStoreUrl, onTrouble })
  }
  return openPostgresLog({
    pool,
    connection: clientConfig(connection),
    onTrouble,
    onSetBack,
    signer: signerFor(options, { pool, sealKey: sealKeyOf(sealKey), clock, role: options.role }),
  })
}

/** Nothing is decided by a wrong clock: commands are turned away as in an overload. */
const guarded = (runner: Core['runner'], guard: Pick<ClockGuard, 'problem'>): Core['runner'] => ({
  ...runner,
  run: async (command) => {
    const problem = guard.problem()
    if (problem !== null) throw new CommandOverload(problem, 5)
    return runner.run(command)
  },
})

/** A test that dies inside a snapshot need not wait the half minute after which the first one of a stream is due. */
const eagerSnapshots: Partial<RunnerLimits> = { snapshotMinEvents: 10, snapshotEveryMs: 0 }

/** How long a database may take to come; two silent attempts. Somebody waits at a command, and at a wrong address. */
const databaseWaitMs = 10_000

/** Longer than for a database: an EventStoreDB on a busy machine may need ten seconds to its first answer, and a cluster elects a leader. */
const logWaitMs = { server: 30_000, command: 10_000 }

/** A start and a command wait for a log that is elsewhere; the one in Postgres was waited for with its database. */
const patienceFor = (url: string, { role, logger }: CoreOptions): Patience =>
  createPatience({
    withinMs: logWaitMs[role],
    where: shownAddress(parseAddress(url)),
    onWait: (reason, waitedMs) =>
      logger.warn({ reason, waitedMs }, 'the log does not answer yet: waiting for it'),
  })

/**
 * Opens Postgres (the embedded one without `DATABASE_URL`), migrates it, checks the keys and opens the log.
 * @throws DataInUse, FareboxAbsent, DatabaseUnreachable, LockHeld, MigrationRefused, KeyRefused: the start is to stop with their message
 */
export const openCore = (options: CoreOptions): Promise<Core> =>
  opening((closing) => openInto(closing, options))

const openInto = async (closing: Closing, options: CoreOptions): Promise<Core> => {
  const { config, role, makes = role === 'server', systemClock, logger, hooks, metrics } = options
  const postgres = await openPostgres(config, role, makes)
  closing.add(postgres.stop)
  const { pool, connection } = await openPool(
    closing,
    {
      url: postgres.url,
      applicationName: `farebox-${role}`,
      max: role === 'server' ? config.poolSize : 4,
      statementTimeoutMs: config.statementTimeoutMs,
    },
    { withinMs: databaseWaitMs, logger },
  )
  if (!makes) await refuseAbsent(pool, postgres.url)
  await migrateDatabase({
    pool,
    ownerUrl: postgres.ownerUrl,
    ...(role === 'command' && { withinMs: databaseWaitMs }),
    waitMs: databaseWaitMs,
    logger,
  })
  const inUse = await keysInUse(pool)
  const keys = await withFilesIn(config.dataDir, () => loadKeys(config, inUse))
  await checkKeys(pool, keys)

  const clock: Clock = options.clock ?? (() => systemClock() + config.clockOffsetMs)
  const tellClock = (problem: string | null): void =>
    problem === null
      ? logger.warn('the clock is right again')
      : logger.error({ problem }, 'nothing is decided by this process until its clock is right')
  const clockGuard = await startClockGuard({
    pool,
    systemClock,
    monotonicMs: () => performance.now(),
    onChange: tellClock,
  })
  closing.add(clockGuard.stop)

  const setBack = Promise.withResolvers<Error>()
  const patience = config.eventStoreUrl === null ? null : patienceFor(config.eventStoreUrl, options)
  const opened = await openLog(options, {
    pool,
    connection,
    sealKey: keys.seal,
    clock,
    onSetBack: setBack.resolve,
  })
  const { log, health: appends } = watchAppends(patience?.log(opened) ?? opened, {
    onChange: (problem) =>
      problem === null
        ? logger.warn('the log takes appends again')
        : logger.error({ err: problem }, 'the log takes no appends: every order is refused until it does'),
  })
  closing.add(() => {
    patience?.end()
    return log.close()
  })
  // A server says at once that it waits; a command may have no need of the log.
  if (role === 'server') await log.logId()
  const periodGuard = await startPeriodGuard({ log: opened, clock, onChange: tellClock })
  closing.add(periodGuard.stop)
  const timeGuard: Core['clockGuard'] = {
    problem: () => clockGuard.problem() ?? periodGuard.problem(),
    check: async () => {
      await Promise.all([clockGuard.check(), periodGuard.check()])
    },
  }
  const codec = createCodec()
  const lockPool = createPool({ ...connection, max: defaultLimits.contendedLanes })
  closing.add(() => lockPool.end())
  const streamLocks = createPostgresStreamLocks({
    pool: lockPool,
    connection: clientConfig(connection),
    onTrouble: (what, error) => logger.warn({ err: error }, what),
  })
  closing.add(() => streamLocks.close())
  const lulls = createLulls()
  const runner = createCommandRunner({
    log,
    lulls,
    clock,
    laterThan,
    newEventId,
    codec,
    logger,
    hooks,
    snapshots: createPostgresSnapshots(pool),
    streamLocks,
    ...(config.crashAt?.point.endsWith('-snapshot') && { limits: eagerSnapshots }),
    ...(metrics === undefined ? {} : { metrics }),
  })
  closing.add(() => runner.close())
  return {
    config,
    keys,
    postgresUrl: postgres.url,
    pool,
    log,
    patience,
    appends,
    codec,
    runner: guarded(runner, timeGuard),
    clock,
    lulls,
    clockGuard: timeGuard,
    logger,
    failed: Promise.race([postgres.failed, setBack.promise]),
    close: closing.close,
  }
}
