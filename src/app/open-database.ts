import type pg from 'pg'
import type { Logger } from 'pino'
import type { CloseStack } from '../kernel/resource-scope.ts'
import { type OpenPostgres, openPostgres } from '../platform/postgres/open.ts'
import type { PoolOptions } from '../platform/postgres/pool.ts'
import { requireInstalled } from '../platform/postgres/wait-for-database.ts'
import type { Config } from './config.ts'
import { openPool } from './open-pool.ts'

export type DatabaseOptions = {
  readonly config: Config
  readonly role: 'server' | 'command'
  /** Whether a Farebox is made where there is none; left out: a server does. */
  readonly makes?: boolean
  readonly logger: Logger
}

/** `connection`: for what connects beside the pool. */
export type Database = {
  readonly postgres: OpenPostgres
  readonly pool: pg.Pool
  readonly connection: PoolOptions
}

/** How long a database may take to come; two silent attempts. Somebody waits at a command, and at a wrong address. */
export const databaseWaitMs = 10_000

/**
 * Opens Postgres, the embedded one without `DATABASE_URL`. In a file of its own, because a command that fails here must not
 * load the rest of the core.
 * @throws DataInUse, FareboxNotInstalled, DatabaseUnreachable
 */
export const openDatabase = async (
  closing: CloseStack,
  { config, role, makes = role === 'server', logger }: DatabaseOptions,
): Promise<Database> => {
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
  if (!makes) await requireInstalled(pool, postgres.url)
  return { postgres, pool, connection }
}
