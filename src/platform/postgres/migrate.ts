import { createHash } from 'node:crypto'
import type pg from 'pg'
import { lockKeys, type TakeOptions, takeLock } from './locks.ts'
import { allowSilence } from './postgres-session.ts'
import { transact } from './transaction.ts'

/**
 * The statements that give the service's role the privileges that it lacks on the owner's objects. The role owns the
 * read tables, which it rebuilds, the traffic records, whose partitions it creates and drops, and what a killed rebuild
 * or verification left behind. It creates scratch schemas. It writes work, the vault and the engine's rows. It reads the
 * log and appends to it; for more than an insert it calls functions that run as their owner. It changes no function,
 * key, trigger, owner or privilege.
 */
const missingGrantsSql = `
  with service as (select $1::name as name),
  owned as (
    select n.oid, n.nspname, n.nspowner from pg_namespace n
     where n.nspname in ('read', 'traffic') or n.nspname like 'read\\_next\\_%' or n.nspname like 'verify\\_%'
  ), wanted as (
    select n.nspname, c.oid, c.relname, c.relkind, w.privilege
      from pg_class c join pg_namespace n on n.oid = c.relnamespace,
        unnest(case
          when n.nspname || '.' || c.relname = 'log.events' then array['select', 'insert']
          when n.nspname = 'log' and c.relkind = 'S' then array['select', 'usage']
          when n.nspname = 'log' or n.nspname = 'public' then array['select']
          when c.relkind = 'S' then array['select', 'usage', 'update']
          when n.nspname || '.' || c.relname = 'work.event_digests' then array['select', 'insert', 'delete']
          when n.nspname || '.' || c.relname = 'work.verifications' then array['select', 'insert', 'update']
          when n.nspname = 'work' then array['select', 'insert', 'update', 'delete', 'truncate']
          else array['select', 'insert', 'update', 'delete'] end) w(privilege)
     where c.relkind in ('r', 'p', 'v', 'S')
       and (n.nspname in ('log', 'engine', 'vault', 'work') or n.nspname || '.' || c.relname = 'public.farebox_migration')
  ), missing as (
    select 1 as step, format('grant create on database %I to %I', current_database(), name) as statement
      from service where not has_database_privilege(name, current_database(), 'create')
    union all
    select 2, format('grant usage on schema %I to %I', n.nspname, name) from service, pg_namespace n
     where n.nspname in ('log', 'engine', 'vault', 'work') and not has_schema_privilege(name, n.oid, 'usage')
    union all
    select 3, format('grant %s on %s %I.%I to %I', string_agg(privilege, ', '),
        case relkind when 'S' then 'sequence' else 'table' end, nspname, relname, name)
      from service, wanted
     where not case relkind when 'S' then has_sequence_privilege(name, oid, privilege)
       else has_table_privilege(name, oid, privilege) end
     group by nspname, relname, relkind, name
    union all
    select 4, format('grant execute on function %s to %I', p.oid::regprocedure, name) from service, pg_proc p
     where p.pronamespace = 'log'::regnamespace and p.prorettype <> 'trigger'::regtype
       and not has_function_privilege(name, p.oid, 'execute')
    union all
    select 5, format('alter schema %I owner to %I', nspname, name) from service, owned
     where pg_get_userbyid(nspowner) <> name
    union all
    select 6, format('alter table %I.%I owner to %I', o.nspname, c.relname, name)
      from service, owned o join pg_class c on c.relnamespace = o.oid
     where c.relkind in ('r', 'p') and pg_get_userbyid(c.relowner) <> name
  )
  select statement from missing order by step, statement`

/**
 * Grants a role the privileges that the service needs in a migrated database, and no more. The caller must be the
 * owner of the database and a member of the role, or a superuser. No migration may run at the same time.
 * @returns the statements that were necessary
 */
const grantService = (client: pg.ClientBase, role: string): Promise<readonly string[]> =>
  transact(client, async () => {
    const { rows } = await client.query<{ statement: string }>(missingGrantsSql, [role])
    for (const { statement } of rows) await client.query(statement)
    return rows.map(({ statement }) => statement)
  })

/**
 * The durable tables of one module: SQL texts by name (`0001_log`). Names are unique over all modules and determine
 * the order. Never edit an applied text: add a new migration.
 */
export type Migrations = Readonly<Record<string, string>>

/** The database does not fit this code. Nothing was changed. The message says what to do. */
export class MigrationRefused extends Error {
  override readonly name = 'MigrationRefused'
}

export const checksumOf = (sql: string): string => createHash('sha256').update(sql).digest('hex')

type AppliedMigration = { readonly name: string; readonly checksum: string }

const refuseMismatch = (landed: readonly AppliedMigration[], migrations: Migrations): void => {
  const unknown = landed.filter(({ name }) => migrations[name] === undefined).map(({ name }) => name)
  if (unknown.length > 0)
    throw new MigrationRefused(
      `Start the version of Farebox that made the database, or a later one. The database is newer than this version of Farebox: it has ${unknown.join(', ')}`,
    )
  const editedNames = landed
    .filter(({ name, checksum }) => checksumOf(migrations[name] ?? '') !== checksum)
    .map(({ name }) => name)
  if (editedNames.length > 0)
    throw new MigrationRefused(
      `migration ${editedNames.join(', ')} was edited after it landed in this database. Restore its text and put the change into a new migration.`,
    )
}

/** A missing privilege (42501 insufficient_privilege) becomes a MigrationRefused. Other errors are unchanged. */
const refusalOf = (error: unknown): unknown => {
  const { code, message } = error as { readonly code?: unknown; readonly message: string }
  if (code !== '42501') return error
  return new MigrationRefused(
    `the user of DATABASE_URL may not do what Farebox needs there (${message}). Make it the owner of the database, or set DATABASE_OWNER_URL to the address of the owner, who has to be a member of the role that serves (docs/operations/security.md).`,
    { cause: error },
  )
}

const throwRefusal = (error: unknown): never => {
  throw refusalOf(error)
}

/** The names of the migrations that a database lacks. @throws MigrationRefused if it does not fit this code */
const missingOf = (landed: readonly AppliedMigration[], migrations: Migrations): readonly string[] => {
  refuseMismatch(landed, migrations)
  const names = new Set(landed.map(({ name }) => name))
  return Object.keys(migrations)
    .filter((name) => !names.has(name))
    .sort()
}

const readApplied = async (client: pg.Pool | pg.ClientBase): Promise<readonly AppliedMigration[]> =>
  (await client.query<AppliedMigration>('select name, checksum from public.farebox_migration')).rows

/**
 * Checks that the database is of this version, and changes nothing.
 * @throws MigrationRefused
 */
export const requireMigrated = async (pool: pg.Pool, migrations: Migrations): Promise<void> => {
  const missing = missingOf(await readApplied(pool), migrations)
  if (missing.length > 0)
    throw new MigrationRefused(
      `Start the service of this version first: it migrates the database, which is older and lacks ${missing.join(', ')}. Commands change no tables.`,
    )
}

/** Creates the table only if it is missing: without the privilege to create, Postgres rejects `if not exists`, too. */
const makeRecord = async (client: pg.ClientBase): Promise<void> => {
  const { rows } = await client.query<{ made: boolean }>(
    "select to_regclass('public.farebox_migration') is not null as made",
  )
  if (rows[0]?.made !== true)
    await client
      .query(`
      create table if not exists public.farebox_migration (
        name text primary key,
        checksum text not null,
        applied_at timestamptz not null default clock_timestamp()
      )`)
      .catch(throwRefusal)
}

const applyOne = async (client: pg.ClientBase, name: string, sql: string): Promise<void> => {
  try {
    await transact(client, async () => {
      // A new index on a large table may take long. The pool's limit is meant for requests.
      await client.query('set local statement_timeout = 0')
      await client.query(sql)
      await client.query(
        'insert into public.farebox_migration (name, checksum) values ($1::text, $2::text)',
        [name, checksumOf(sql)],
      )
    })
  } catch (error) {
    const refusal = refusalOf(error)
    if (refusal !== error) throw refusal
    throw new Error(`migration ${name} failed: ${(error as Error).message}`, { cause: error })
  }
}

/**
 * Migrates the database to this code: applies the missing migrations in the order of their names, each in a
 * transaction of its own, under an advisory lock. Returns the names of the applied migrations. It waits for a process
 * that already migrates, because a new index on a large table may take long.
 *
 * With `service`, a role other than the migrating one, that role then gets the privileges that the service needs, and
 * no more. `onGrant` gets the statements that were necessary.
 *
 * Kysely's own migrator stores no checksums, so it cannot detect an edited migration.
 * @throws MigrationRefused if the database is newer than the code, or an applied migration was edited; LockHeld if
 * another process migrates for longer than `withinMs`
 */
export const migrate = async (
  pool: pg.Pool,
  migrations: Migrations,
  options: Pick<TakeOptions, 'withinMs' | 'onWait'> & {
    readonly service?: string
    readonly onGrant?: (statements: readonly string[]) => void
  } = {},
): Promise<readonly string[]> => {
  const { service, onGrant, ...waiting } = options
  const client = await pool.connect()
  try {
    allowSilence(client)
    await client.query("set lock_timeout = '60s'")
    await takeLock(client, lockKeys.migrating, { ...waiting, what: 'is migrating the database' })
    await makeRecord(client)
    const missing = missingOf(await readApplied(client), migrations)
    for (const name of missing) await applyOne(client, name, migrations[name] ?? '')
    if (service !== undefined) {
      const granted = await grantService(client, service).catch(throwRefusal)
      if (granted.length > 0) onGrant?.(granted)
    }
    return missing
  } finally {
    // Ends the session, which releases the lock, whatever state an error left it in.
    client.release(true)
  }
}
