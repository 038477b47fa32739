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
  readonly role: 'server' | 'auditor' | 'command'
  /** Whether to create a Farebox if there is none; default: only a server does. */
  readonly makes?: boolean
  readonly logger: Logger
  /** See `openPool`. */
  readonly starting?: AbortSignal | undefined
}

/** `connection`: options for connections outside of the pool. */
export type Database = {
  readonly postgres: OpenPostgres
  readonly pool: pg.Pool
  readonly connection: PoolOptions
}

/**
 * Time limit for a connection, milliseconds: two attempts without an answer. Short, because a person waits for a
 * command.
 */
export const databaseWaitMs = 10_000

/**
 * Opens Postgres, the embedded one without `DATABASE_URL`. It has its own file because a command that fails here must
 * not load the rest of the core.
 * @throws DataInUse, FareboxNotInstalled, DatabaseUnreachable
 */
export const openDatabase = async (
  closing: CloseStack,
  { config, role, makes = role === 'server', logger, starting }: DatabaseOptions,
): Promise<Database> => {
  // The embedded Postgres belongs to the server.
  const postgres = await openPostgres(config, role === 'server' ? 'server' : 'command', makes)
  closing.add(postgres.stop)
  const { pool, connection } = await openPool(
    closing,
    {
      url: role === 'auditor' ? (postgres.auditorUrl ?? postgres.url) : postgres.url,
      applicationName: `farebox-${role}`,
      max: role === 'server' ? config.poolSize : 4,
      statementTimeoutMs: config.statementTimeoutMs,
    },
    { withinMs: databaseWaitMs, logger, starting },
  )
  if (!makes) await requireInstalled(pool, postgres.url)
  return { postgres, pool, connection }
}
