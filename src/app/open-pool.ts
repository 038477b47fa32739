import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { CloseStack } from '../kernel/resource-scope.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import { openPostgres } from '../platform/postgres/open.ts'
import { clientConfig, createPool, type PoolOptions } from '../platform/postgres/pool.ts'
import { hasOwnSessions, poolerProblem, poolerRemedy } from '../platform/postgres/pooler.ts'
import {
  connectWhileAway,
  type DatabaseWaitOptions,
  placeOf,
  waitForDatabase,
} from '../platform/postgres/wait-for-database.ts'
import { type Keys, keysInUse, loadKeys, storeKeys } from '../platform/vault/keys.ts'
import type { Config } from './config.ts'

/** Logs what a start waits for. */
export const logWaiting =
  (logger: Logger, place: string): NonNullable<DatabaseWaitOptions['onWait']> =>
  (reason, waitedMs) =>
    logger.warn(`waiting for ${place} (${Math.round(waitedMs / 1000)} s so far): ${reason}`)

/** The files that an address of Postgres may name. The driver reads them for each connection. */
const tlsFiles = ['sslrootcert', 'sslcert', 'sslkey']

/** @throws StartRefused: the driver's own error names neither the setting nor the remedy */
const requireTlsFiles = async (address: string, setting: string): Promise<void> => {
  const { searchParams } = new URL(address)
  for (const name of tlsFiles) {
    const path = searchParams.get(name)
    if (path === null) continue
    await readFile(path).catch((error) => {
      throw new StartRefused(`${setting}: ${name} is no file that can be read (${error.message})`, {
        cause: error,
      })
    })
  }
}

/**
 * Opens the connection pool of a process, which `closing` closes, and waits until the database accepts a connection.
 * @returns `connection`: options for connections outside of the pool
 * @throws DatabaseUnreachable after `withinMs` milliseconds; StartRefused
 */
export const openPool = async (
  closing: CloseStack,
  options: Omit<PoolOptions, 'onError'>,
  {
    withinMs,
    logger,
    setting,
    starting,
  }: {
    readonly withinMs: number
    readonly logger: Logger
    /** Aborted at the end of a start: until then, each connection of the pool waits. A command has none. */
    readonly starting?: AbortSignal | undefined
    /** The setting with the address, for messages; default `DATABASE_URL`. */
    readonly setting?: string
  },
): Promise<{ readonly pool: pg.Pool; readonly connection: PoolOptions }> => {
  await requireTlsFiles(options.url, setting ?? 'DATABASE_URL')
  let isEnding = false
  const connection: PoolOptions = {
    ...options,
    onError: (error) => {
      // An ended pool may still have closing connections when Postgres stops.
      if (!isEnding) logger.warn({ err: error }, 'a connection to Postgres broke')
    },
  }
  const pool = createPool(connection)
  closing.add(() => {
    isEnding = true
    return pool.end()
  })
  const waiting = { onWait: logWaiting(logger, placeOf(options.url)), signal: starting }
  await waitForDatabase(pool, {
    ...waiting,
    url: options.url,
    withinMs,
    ...(setting !== undefined && { setting }),
    isPatient: starting !== undefined,
  })
  if (starting !== undefined) connectWhileAway(pool, { ...waiting, signal: starting })
  return { pool, connection }
}

/** @throws StartRefused if the address leads to a connection pooler in transaction mode */
export const requireOwnSessions = async ({ databaseUrl }: Pick<Config, 'databaseUrl'>): Promise<void> => {
  if (databaseUrl !== null && (await hasOwnSessions(databaseUrl)) === false)
    throw new StartRefused(`${poolerProblem}; ${poolerRemedy}`)
}

const databaseWaitMs = 30_000

/** A service that starts at the same time creates the tables. Its first start folds them from the whole log. */
const waitForTables = async (
  pool: pg.Pool,
  requiredTables: readonly string[],
  logger: Logger,
): Promise<void> => {
  for (let hasWarned = false; ; hasWarned = true) {
    const { rows } = await pool.query<{ missing: readonly string[] }>(
      'select coalesce(array_agg(name), array[]::text[]) as missing from unnest($1::text[]) name where to_regclass(name) is null',
      [requiredTables],
    )
    const missing = rows[0]?.missing ?? []
    if (missing.length === 0) return
    if (!hasWarned)
      logger.warn({ missing }, 'waiting for the tables that the service makes: start it on this database')
    await sleep(200)
  }
}

/**
 * Opens the database for a process that never writes to the log, and waits for the tables that it needs.
 * @throws StartRefused, KeyRefused, DatabaseUnreachable: the start must stop with their message
 */
export const openWorkerDatabase = async (
  closing: CloseStack,
  parts: {
    readonly config: Config
    readonly applicationName: string
    readonly poolSize: number
    readonly needed: readonly string[]
    readonly logger: Logger
    /** See `openPool`. */
    readonly starting: AbortSignal | undefined
  },
): Promise<{
  readonly pool: pg.Pool
  /** The same database, for connections outside of the pool. */
  readonly connection: pg.ClientConfig
  readonly keys: Keys
}> => {
  const { config, applicationName, poolSize, needed: requiredTables, logger, starting } = parts
  const postgres = await openPostgres(config, 'command', false)
  closing.add(postgres.stop)
  const { pool, connection } = await openPool(
    closing,
    { url: postgres.url, applicationName, max: poolSize, statementTimeoutMs: 5_000 },
    { withinMs: databaseWaitMs, logger, starting },
  )
  await requireOwnSessions(config)
  await waitForTables(pool, requiredTables, logger)
  const keys = await loadKeys(config, await keysInUse(pool))
  await storeKeys(pool, keys)
  return { pool, connection: clientConfig(connection), keys }
}
