import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Closing } from '../kernel/closing.ts'
import { openPostgres } from '../platform/postgres/open.ts'
import { StartRefused } from '../platform/postgres/start-refused.ts'
import { checkKeys, type Keys, keysInUse, loadKeys } from '../platform/vault/keys.ts'
import type { Config } from './config.ts'
import { openPool } from './open-pool.ts'

const databaseWaitMs = 30_000
/** A service that starts beside it makes the tables, which a first start folds from the whole log. */
const tablesWaitMs = 600_000

const tablesMade = async (pool: pg.Pool, needed: readonly string[], logger: Logger): Promise<void> => {
  const deadlineMs = performance.now() + tablesWaitMs
  for (let told = false; ; ) {
    const { rows } = await pool.query<{ missing: readonly string[] }>(
      'select coalesce(array_agg(name), array[]::text[]) as missing from unnest($1::text[]) name where to_regclass(name) is null',
      [needed],
    )
    const missing = rows[0]?.missing ?? []
    if (missing.length === 0) return
    if (performance.now() >= deadlineMs)
      throw new StartRefused(
        `the database has no ${missing.join(', ')}: start the service on it first, which makes them`,
      )
    if (!told) logger.warn({ missing }, 'the service has not made its tables yet: waiting for them')
    told = true
    await sleep(200)
  }
}

/**
 * Opens the database for a process beside the service, which neither reads nor writes the log, and waits for the tables
 * that it needs.
 * @throws StartRefused, KeyRefused, DatabaseUnreachable: the start is to stop with their message
 */
export const openWorkerDatabase = async (
  closing: Closing,
  parts: {
    readonly config: Config
    readonly applicationName: string
    readonly poolSize: number
    readonly needed: readonly string[]
    readonly logger: Logger
  },
): Promise<{ readonly pool: pg.Pool; readonly keys: Keys }> => {
  const { config, applicationName, poolSize, needed, logger } = parts
  const postgres = await openPostgres(config, 'command', false)
  closing.add(postgres.stop)
  const { pool } = await openPool(
    closing,
    { url: postgres.url, applicationName, max: poolSize, statementTimeoutMs: 5_000 },
    { withinMs: databaseWaitMs, logger },
  )
  await tablesMade(pool, needed, logger)
  const keys = await loadKeys(config, await keysInUse(pool))
  await checkKeys(pool, keys)
  return { pool, keys }
}
