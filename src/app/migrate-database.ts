import type pg from 'pg'
import type { Logger } from 'pino'
import { type CloseStack, closeAfter } from '../kernel/resource-scope.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import type { LockHolder } from '../platform/postgres/locks.ts'
import { migrate, readAuditorRole } from '../platform/postgres/migrate.ts'
import type { OpenPostgres } from '../platform/postgres/open.ts'
import { allMigrations } from './migrations.ts'
import { openPool } from './open-pool.ts'

/** Identifies the database, also for equal names on two servers. The query needs no privileges. */
const sessionQuery = `
  select current_user as role, concat_ws(' ', oid, datname, pg_postmaster_start_time()) as place
    from pg_database where datname = current_database()`

type Session = { readonly role: string; readonly place: string }

type DatabaseSettings = 'DATABASE_URL' | 'DATABASE_OWNER_URL' | 'DATABASE_AUDITOR_URL'

/**
 * Migrates the database to this version. With an owner's address the owner migrates and grants the roles of the service
 * and the auditor their privileges. The owner's connection is closed before anything is served.
 * @param options `withinMs`: how long to wait for another process that migrates; `waitMs`: for a connection of the
 * owner
 * @throws MigrationRefused, LockHeld, DatabaseUnreachable, StartRefused: the start must stop with their message
 */
export const migrateDatabase = async (options: {
  readonly pool: pg.Pool
  readonly postgres: Pick<OpenPostgres, 'url' | 'ownerUrl' | 'auditorUrl'>
  readonly withinMs?: number
  readonly waitMs: number
  readonly logger: Logger
  /** See `openPool`. */
  readonly starting?: AbortSignal | undefined
}): Promise<void> => {
  const { pool, postgres, withinMs, waitMs, logger, starting } = options
  let granted: readonly string[] = []
  const lockOptions = {
    ...(withinMs !== undefined && { withinMs }),
    onWait: (holder: LockHolder | null) =>
      logger.warn({ holder }, 'another process is migrating the database: waiting for it'),
  }
  const openAs = async (closing: CloseStack, url: string, setting: DatabaseSettings) =>
    (
      await openPool(
        closing,
        { url, applicationName: 'farebox-owner', max: 1 },
        { withinMs: waitMs, logger, setting, starting },
      )
    ).pool
  const sessionOf = async (pool: pg.Pool): Promise<Session> =>
    (await pool.query<Session>(sessionQuery)).rows[0]!
  const migrateAsOwner = async (closing: CloseStack, ownerUrl: string): Promise<readonly string[]> => {
    const owners = await openAs(closing, ownerUrl, 'DATABASE_OWNER_URL')
    const owner = await sessionOf(owners)
    const roleOf = async (url: string, setting: DatabaseSettings): Promise<string> => {
      const { role, place } = await sessionOf(await openAs(closing, url, setting))
      if (place === owner.place) return role
      throw new StartRefused(
        `DATABASE_OWNER_URL and ${setting} are two databases. Set both to the same one, as two of its users.`,
      )
    }
    const service = await roleOf(postgres.url, 'DATABASE_URL')
    const auditor =
      postgres.auditorUrl === null ? undefined : await roleOf(postgres.auditorUrl, 'DATABASE_AUDITOR_URL')
    if (auditor !== undefined) await requireRoleOfItsOwn(owners, auditor, [service, owner.role])
    const onGrant = (statements: readonly string[]): void => {
      granted = statements
    }
    const roles = service === owner.role ? {} : { service, auditor }
    return migrate(owners, allMigrations, { ...lockOptions, ...roles, onGrant })
  }
  const { ownerUrl } = postgres
  const applied =
    ownerUrl === null
      ? await migrate(pool, allMigrations, lockOptions)
      : await closeAfter((closing) => migrateAsOwner(closing, ownerUrl))
  if (applied.length > 0) logger.info({ applied }, 'migrated the database')
  else if (granted.length > 0)
    logger.warn({ granted }, 'rights or owners of the database were not those of the service, and are now')
}

/** @throws StartRefused */
const requireRoleOfItsOwn = async (
  owners: pg.Pool,
  auditor: string,
  [service, owner]: readonly [string, string],
): Promise<void> => {
  const { rows } = await owners.query<{ member: boolean }>(
    "select pg_has_role($1::name, $2::name, 'usage') as member",
    [auditor, service],
  )
  if (auditor === service || auditor === owner || rows[0]?.member !== true)
    throw new StartRefused(
      'DATABASE_AUDITOR_URL needs a role of its own that is a member of the role of DATABASE_URL (docs/operations/security.md)',
    )
}

/**
 * Checks that the auditor connects with the role that has its rights.
 * @param hasOwnRole whether an address of its own is set
 * @throws StartRefused
 */
export const requireAuditorRole = async (pool: pg.Pool, hasOwnRole: boolean): Promise<void> => {
  const auditor = await readAuditorRole(pool)
  const { role } = (await pool.query<{ role: string }>('select current_user as role')).rows[0]!
  if (hasOwnRole && auditor !== role)
    throw new StartRefused(
      `the role of DATABASE_AUDITOR_URL, ${role}, lacks the rights of the auditor: start once with DATABASE_OWNER_URL, which grants them (docs/operations/security.md)`,
    )
  if (!hasOwnRole && auditor !== null)
    throw new StartRefused(
      `the auditor of this database has a role of its own, ${auditor}: set DATABASE_AUDITOR_URL (docs/operations/security.md)`,
    )
}
