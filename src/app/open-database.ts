import type pg from 'pg'
import type { Logger } from 'pino'
import type { CloseStack } from '../kernel/resource-scope.ts'
import { type OpenPostgres, openPostgres } from '../platform/postgres/open.ts'
import type { PoolOptions } from '../platform/postgres/pool.ts'
import { requireInstalled } from '../platform/postgres/wait-for-database.ts'
import type { Config } from './config.ts'
import { openPool, requireOwnSessions } from './open-pool.ts'

export type DatabaseOptions = {
  readonly config: Config
  readonly role: 'server' | 'auditor' | 'command'
  /** Whether to create a Farebox if there is none; default: only a server does. */
  readonly makes?: boolean
  readonly logger: Logger
  /** See `openPool`. */
  readonly starting?: AbortSignal | undefined
}

/**
 * `connection`: options for connections outside of the pool. `starting`: aborted at the end of a start, and when the
 * embedded Postgres has ended by itself, because waiting for it is then useless.
 */
export type Database = {
  readonly postgres: OpenPostgres
  readonly starting: AbortSignal | undefined
  readonly pool: pg.Pool
  readonly connection: PoolOptions
}

/**
 * Time limit for a connection, milliseconds: two attempts without an answer. Short, because a person waits for a
 * command.
 */
export const databaseWaitMs = 10_000

/** Aborted with the error. */
export const signalOf = (failed: Promise<Error>): AbortSignal => {
  const controller = new AbortController()
  void failed.then((error) => controller.abort(error))
  return controller.signal
}

/**
 * Opens Postgres, the embedded one without `DATABASE_URL`. It has its own file because a command that fails here must
 * not load the rest of the core.
 * @throws DataInUse, FareboxNotInstalled, DatabaseUnreachable, StartRefused
 */
export const openDatabase = async (
  closing: CloseStack,
  { config, role, makes = role === 'server', logger, starting: isStarting }: DatabaseOptions,
): Promise<Database> => {
  // The embedded Postgres belongs to the server.
  const postgres = await openPostgres(config, role === 'server' ? 'server' : 'command', makes)
  closing.add(postgres.stop)
  const starting = isStarting && AbortSignal.any([isStarting, signalOf(postgres.failed)])
  const { pool, connection } = await openPool(
    closing,
    {
      url: role === 'auditor' ? (postgres.auditorUrl ?? postgres.url) : postgres.url,
      applicationName: `farebox-${role}`,
      max: role === 'server' ? config.poolSize : 4,
      statementTimeoutMs: config.statementTimeoutMs,
    },
    {
      withinMs: databaseWaitMs,
      logger,
      starting,
      ...(role === 'auditor' && postgres.auditorUrl !== null && { setting: 'DATABASE_AUDITOR_URL' }),
    },
  )
  if (role !== 'command') await requireOwnSessions(config)
  if (!makes) await requireInstalled(pool, postgres.url)
  return { postgres, starting, pool, connection }
}
