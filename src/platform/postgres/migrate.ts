import { createHash } from 'node:crypto'
import type pg from 'pg'
import { lockKeys, type TakeOptions, takeLock } from './locks.ts'
import { allowSilence } from './postgres-session.ts'
import { transact } from './transaction.ts'

/**
 * The privileges of the service's role on the owner's objects. The role owns the read tables, which it rebuilds, and the
 * traffic records, whose partitions it creates and drops. It creates scratch schemas. It writes work, the vault and the engine's rows. It reads the log and appends to it; for
 * more than an insert it calls functions that run as their owner. It changes no function, key, trigger, owner or
 * privilege.
 *
 * Only missing privileges are granted, so that most starts change nothing.
 */
const granting = `
  do $$
  declare
    service constant name := current_setting('farebox.service');
    found record;
  begin
    if not has_database_privilege(service, current_database(), 'create') then
      execute format('grant create on database %I to %I', current_database(), service);
    end if;
    for found in
      select n.nspname from pg_namespace n where n.nspname in ('log', 'engine', 'vault', 'work')
        and not has_schema_privilege(service, n.oid, 'usage')
    loop
      execute format('grant usage on schema %I to %I', found.nspname, service);
    end loop;

    for found in
      select n.nspname, c.relname, c.relkind, string_agg(w.wanted, ', ') as wanted
        from pg_class c join pg_namespace n on n.oid = c.relnamespace,
          unnest(case
            when n.nspname || '.' || c.relname = 'log.events' then array['select', 'insert']
            when n.nspname = 'log' and c.relkind = 'S' then array['select', 'usage']
            when n.nspname = 'log' or n.nspname = 'public' then array['select']
            when c.relkind = 'S' then array['select', 'usage', 'update']
            when n.nspname || '.' || c.relname = 'work.event_digests' then array['select', 'insert', 'delete']
            when n.nspname || '.' || c.relname = 'work.verifications' then array['select', 'insert', 'update']
            when n.nspname = 'work' then array['select', 'insert', 'update', 'delete', 'truncate']
            else array['select', 'insert', 'update', 'delete'] end) w(wanted)
       where c.relkind in ('r', 'p', 'v', 'S')
         and (n.nspname in ('log', 'engine', 'vault', 'work') or n.nspname || '.' || c.relname = 'public.farebox_migration')
         and not case c.relkind when 'S' then has_sequence_privilege(service, c.oid, w.wanted)
           else has_table_privilege(service, c.oid, w.wanted) end
       group by n.nspname, c.relname, c.relkind
    loop
      execute format('grant %s on %s %I.%I to %I', found.wanted,
        case found.relkind when 'S' then 'sequence' else 'table' end, found.nspname, found.relname, service);
    end loop;

    for found in
      select p.oid::regprocedure as routine from pg_proc p
       where p.pronamespace = 'log'::regnamespace and p.prorettype <> 'trigger'::regtype
         and not has_function_privilege(service, p.oid, 'execute')
    loop
      execute format('grant execute on function %s to %I', found.routine, service);
    end loop;

    -- The read tables, the traffic records with their daily partitions, and what a rebuild or a verification that was
    -- killed left behind.
    for found in
      select n.nspname from pg_namespace n
       where (n.nspname in ('read', 'traffic') or n.nspname like 'read\\_next\\_%' or n.nspname like 'verify\\_%')
         and pg_get_userbyid(n.nspowner) <> service
    loop
      execute format('alter schema %I owner to %I', found.nspname, service);
    end loop;
    for found in
      select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where (n.nspname in ('read', 'traffic') or n.nspname like 'read\\_next\\_%' or n.nspname like 'verify\\_%')
         and c.relkind in ('r', 'p') and pg_get_userbyid(c.relowner) <> service
    loop
      execute format('alter table %I.%I owner to %I', found.nspname, found.relname, service);
    end loop;
  end
  $$`

/**
 * Grants a role the privileges that the service needs in a migrated database, and no more. The caller must be the
 * owner of the database and a member of the role, or a superuser. No migration may run at the same time.
 */
export const grantService = (client: pg.ClientBase, role: string): Promise<void> =>
  transact(client, async () => {
    await client.query("select set_config('farebox.service', $1::text, true)", [role])
    await client.query(granting)
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
 * no more.
 *
 * Kysely's own migrator stores no checksums, so it cannot detect an edited migration.
 * @throws MigrationRefused if the database is newer than the code, or an applied migration was edited; LockHeld if
 * another process migrates for longer than `withinMs`
 */
export const migrate = async (
  pool: pg.Pool,
  migrations: Migrations,
  options: Pick<TakeOptions, 'withinMs' | 'onWait'> & { readonly service?: string } = {},
): Promise<readonly string[]> => {
  const { service, ...waiting } = options
  const client = await pool.connect()
  try {
    allowSilence(client)
    await client.query("set lock_timeout = '60s'")
    await takeLock(client, lockKeys.migrating, { ...waiting, what: 'is migrating the database' })
    await makeRecord(client)
    const { rows } = await client.query<AppliedMigration>(
      'select name, checksum from public.farebox_migration',
    )
    refuseMismatch(rows, migrations)
    const landed = new Set(rows.map(({ name }) => name))
    const missing = Object.keys(migrations)
      .filter((name) => !landed.has(name))
      .sort()
    for (const name of missing) await applyOne(client, name, migrations[name] ?? '')
    if (service !== undefined) await grantService(client, service).catch(throwRefusal)
    return missing
  } finally {
    // Ends the session, which releases the lock, whatever state an error left it in.
    client.release(true)
  }
}
