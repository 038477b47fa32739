import type pg from 'pg'
import type { Logger } from 'pino'
import { closeOnFailure } from '../kernel/resource-scope.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import type { LockHolder } from '../platform/postgres/locks.ts'
import { migrate } from '../platform/postgres/migrate.ts'
import { allMigrations } from './migrations.ts'
import { openPool } from './open-pool.ts'

/** Identifies the database, also for equal names on two servers. The query needs no privileges. */
const sessionQuery = `
  select current_user as role, concat_ws(' ', oid, datname, pg_postmaster_start_time()) as place
    from pg_database where datname = current_database()`

type Session = { readonly role: string; readonly place: string }

const sessionOf = async (pool: pg.Pool): Promise<Session> => {
  const { rows } = await pool.query<Session>(sessionQuery)
  return rows[0]!
}

/**
 * Migrates the database to this version. With an owner's address the owner migrates and grants the service role its
 * privileges. The owner's connection is closed before anything is served.
 * @param options `withinMs`: how long to wait for another process that migrates; `waitMs`: for a connection of the
 * owner
 * @throws MigrationRefused, LockHeld, DatabaseUnreachable, StartRefused: the start must stop with their message
 */
export const migrateDatabase = async (options: {
  readonly pool: pg.Pool
  readonly ownerUrl: string | null
  readonly withinMs?: number
  readonly waitMs: number
  readonly logger: Logger
  /** See `openPool`. */
  readonly starting?: AbortSignal | undefined
}): Promise<void> => {
  const { pool, ownerUrl, withinMs, waitMs, logger, starting } = options
  let granted: readonly string[] = []
  const lockOptions = {
    ...(withinMs !== undefined && { withinMs }),
    onWait: (holder: LockHolder | null) =>
      logger.warn({ holder }, 'another process is migrating the database: waiting for it'),
  }
  const migrateAsOwner = async (url: string): Promise<readonly string[]> => {
    const opened = await closeOnFailure(async (closing) => {
      const { pool: ownerPool } = await openPool(
        closing,
        { url, applicationName: 'farebox-owner', max: 1 },
        { withinMs: waitMs, logger, setting: 'DATABASE_OWNER_URL', starting },
      )
      return { owners: ownerPool, close: closing.close }
    })
    try {
      const [serviceSession, ownerSession] = [await sessionOf(pool), await sessionOf(opened.owners)]
      if (serviceSession.place !== ownerSession.place)
        throw new StartRefused(
          'DATABASE_OWNER_URL and DATABASE_URL are two databases. Set both to the same one, as two of its users.',
        )
      const service = serviceSession.role === ownerSession.role ? {} : { service: serviceSession.role }
      const onGrant = (statements: readonly string[]): void => {
        granted = statements
      }
      return await migrate(opened.owners, allMigrations, { ...lockOptions, ...service, onGrant })
    } finally {
      await opened.close()
    }
  }
  const applied =
    ownerUrl === null ? await migrate(pool, allMigrations, lockOptions) : await migrateAsOwner(ownerUrl)
  if (applied.length > 0) logger.info({ applied }, 'migrated the database')
  else if (granted.length > 0)
    logger.warn({ granted }, 'rights or owners of the database were not those of the service, and are now')
}
