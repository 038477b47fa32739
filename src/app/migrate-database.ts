import type pg from 'pg'
import type { Logger } from 'pino'
import { closeOnFailure } from '../kernel/resource-scope.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import type { LockHolder } from '../platform/postgres/locks.ts'
import { migrate } from '../platform/postgres/migrate.ts'
import { allMigrations } from './migrations.ts'
import { openPool } from './open-pool.ts'

/** Identifies the database, also for equal names on two servers. The query needs no privileges. */
const whoAndWhere = `
  select current_user as role, concat_ws(' ', oid, datname, pg_postmaster_start_time()) as place
    from pg_database where datname = current_database()`

type Session = { readonly role: string; readonly place: string }

const sessionOf = async (pool: pg.Pool): Promise<Session> => {
  const { rows } = await pool.query<Session>(whoAndWhere)
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
}): Promise<void> => {
  const { pool, ownerUrl, withinMs, waitMs, logger } = options
  const waiting = {
    ...(withinMs !== undefined && { withinMs }),
    onWait: (holder: LockHolder | null) =>
      logger.warn({ holder }, 'another process is migrating the database: waiting for it'),
  }
  const asOwner = async (url: string): Promise<readonly string[]> => {
    const opened = await closeOnFailure(async (closing) => {
      const { pool: owners } = await openPool(
        closing,
        { url, applicationName: 'farebox-owner', max: 1 },
        { withinMs: waitMs, logger, setting: 'DATABASE_OWNER_URL' },
      )
      return { owners, close: closing.close }
    })
    try {
      const [serving, owning] = [await sessionOf(pool), await sessionOf(opened.owners)]
      if (serving.place !== owning.place)
        throw new StartRefused(
          'DATABASE_OWNER_URL and DATABASE_URL are two databases. Set both to the same one, as two of its users.',
        )
      const service = serving.role === owning.role ? {} : { service: serving.role }
      return await migrate(opened.owners, allMigrations, { ...waiting, ...service })
    } finally {
      await opened.close()
    }
  }
  const applied = ownerUrl === null ? await migrate(pool, allMigrations, waiting) : await asOwner(ownerUrl)
  if (applied.length > 0) logger.info({ applied }, 'migrated the database')
}
