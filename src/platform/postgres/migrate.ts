import { createHash } from 'node:crypto'
import type pg from 'pg'
import { lockKeys, type TakeOptions, takeLock } from './locks.ts'
import { allowSilence } from './postgres-session.ts'
import { transact } from './transaction.ts'

/** The tables that only the auditor writes, if it has a role of its own. */
const auditorTables = [
  'engine.auditor_locks',
  'work.event_digests',
  'work.signatures_checked',
  'work.unsigned_events',
  'work.checked_events',
  'work.seal_delivery',
]

/** Whether a table of the schema `read` is one of the auditor's, which owns it. */
export const isAuditorsReadTable = (name: string): string =>
  `(${name} = 'violations' or ${name} like 'audit\\_%')`

/** SQL of the service's role: the one that may create read tables in the owner's schema, else the owner. */
export const serviceRoleSql = `
  coalesce((select min(a.grantee) from pg_namespace n, aclexplode(n.nspacl) a
      where n.nspname = 'read' and a.privilege_type = 'CREATE' and a.grantee not in (0, n.nspowner)),
    (select nspowner from pg_namespace where nspname = 'read'))`

/**
 * The role that has the auditor's rights; null: the auditor has no role of its own.
 * @param service SQL of the service's role
 */
export const auditorRoleSql = (service: string): string => `
  select min(a.grantee) from pg_class c join pg_namespace n on n.oid = c.relnamespace, aclexplode(c.relacl) a
   where n.nspname = 'work' and c.relname = 'checked_events' and a.privilege_type = 'UPDATE'
     and a.grantee not in (0, c.relowner, ${service})`

/** The name of the auditor's role in a database that this role may read; null: it has none of its own. */
export const readAuditorRole = async (pool: pg.Pool): Promise<string | null> => {
  const { rows } = await pool.query<{ role: string | null }>(
    `select pg_get_userbyid((${auditorRoleSql(serviceRoleSql)})) as role`,
  )
  return rows[0]!.role
}

/**
 * The statements that give the service's role and the auditor's the privileges that they lack on the owner's objects. The
 * service's role owns the read tables, which it rebuilds, the traffic records, whose partitions it creates and drops, and
 * what a killed rebuild or verification left behind. It creates tables in `read`, and scratch schemas. It writes work, the
 * vault and the engine's rows. It reads the log and appends to it without choosing positions; for more than an insert it
 * calls functions that run as their owner. It changes no function, key, trigger, owner or privilege.
 *
 * The auditor's role is a member of the service's. If there is one, it alone writes the auditor's tables, and owns those
 * in `read`.
 */
const missingGrantsSql = `
  with service as (
    select oid, quote_ident(rolname) as name from pg_roles where rolname = $1::name
  ), auditor as (
    select r.oid, quote_ident(r.rolname) as name from service s join pg_roles r
        on r.oid = coalesce((select oid from pg_roles where rolname = $2::name), (${auditorRoleSql('s.oid')}))
  ), owned as (
    select n.oid, n.nspname, n.nspowner,
      case n.nspname when 'read' then (select nspowner from pg_namespace where nspname = 'log') else s.oid end as wanted
      from pg_namespace n cross join service s
     where n.nspname in ('read', 'traffic') or n.nspname like 'read\\_next\\_%' or n.nspname like 'verify\\_%'
  ), owned_table as (
    select o.nspname, c.oid, c.relname, c.relowner, coalesce(a.oid, s.oid) as owner, coalesce(a.name, s.name) as owner_name,
      a.oid is not null as audited
      from owned o join pg_class c on c.relnamespace = o.oid and c.relkind in ('r', 'p') cross join service s
      left join auditor a on o.nspname = 'read' and ${isAuditorsReadTable('c.relname')}
  ), relation as (
    select c.oid, n.nspname, c.relname, c.relkind, c.relacl, c.relowner, a.oid is not null as audited,
      coalesce(a.oid, s.oid) as writer, coalesce(a.name, s.name) as writer_name
      from pg_class c join pg_namespace n on n.oid = c.relnamespace cross join service s
      left join auditor a on n.nspname || '.' || c.relname = any ($3::text[])
     where c.relkind in ('r', 'p', 'v', 'S')
       and (n.nspname in ('log', 'engine', 'vault', 'work') or n.nspname || '.' || c.relname = 'public.farebox_migration')
  ), wanted as (
    select r.*, w.privilege, r.writer as grantee, r.writer_name as name
      from relation r, unnest(case
          when r.nspname = 'log' and r.relkind = 'S' then array['select', 'usage']
          when r.nspname = 'log' or r.nspname = 'public' then array['select']
          when r.relkind = 'S' then array['select', 'usage', 'update']
          when r.nspname || '.' || r.relname = 'work.event_digests' then array['select', 'insert', 'delete']
          when r.nspname || '.' || r.relname = 'work.verifications' then array['select', 'insert', 'update']
          when r.nspname = 'work' then array['select', 'insert', 'update', 'delete', 'truncate']
          else array['select', 'insert', 'update', 'delete'] end) w(privilege)
    union all
    select r.*, 'select', s.oid, s.name from relation r, service s where r.audited
  ), missing as (
    select 1 as step, format('grant create on database %I to %s', current_database(), name) as statement
      from service where not has_database_privilege(oid, current_database(), 'create')
    union all
    select 2, format('revoke insert on log.events from %s', name) from service s, pg_class c, aclexplode(c.relacl) a
     where c.oid = 'log.events'::regclass and a.grantee = s.oid and a.privilege_type = 'INSERT'
    union all
    select 3, format('grant insert (%s) on log.events to %s', string_agg(c.attname, ', ' order by c.attnum), name)
      from service s, pg_attribute c
     where c.attrelid = 'log.events'::regclass and c.attnum > 0 and not c.attisdropped and c.attname <> 'position'
       and not exists (select from aclexplode(c.attacl) a where a.grantee = s.oid and a.privilege_type = 'INSERT')
     group by name
    union all
    select 2, format('grant usage on schema %I to %s', n.nspname, name) from service s, pg_namespace n
     where n.nspname in ('log', 'engine', 'vault', 'work') and not has_schema_privilege(s.oid, n.oid, 'usage')
    union all
    select 3, format('grant %s on %s %I.%I to %s', string_agg(privilege, ', '),
        case relkind when 'S' then 'sequence' else 'table' end, nspname, relname, name)
      from wanted w
     where not exists (select from aclexplode(w.relacl) a where a.grantee = w.grantee and a.privilege_type = upper(w.privilege))
     group by nspname, relname, relkind, name
    union all
    select 4, format('grant execute on function %s to %s', p.oid::regprocedure, name) from service s, pg_proc p
     where p.pronamespace = 'log'::regnamespace and p.prorettype <> 'trigger'::regtype
       and not has_function_privilege(s.oid, p.oid, 'execute')
    union all
    select 5, format('revoke %s on %I.%I from %I', string_agg(a.privilege_type, ', '), nspname, relname, pg_get_userbyid(a.grantee))
      from relation r, aclexplode(r.relacl) a
     where r.audited and a.privilege_type <> 'SELECT' and a.grantee not in (0, r.writer, r.relowner)
     group by nspname, relname, a.grantee
    union all
    select 6, format('alter schema %I owner to %I', nspname, pg_get_userbyid(wanted)) from owned
     where nspowner <> wanted and (nspname in ('read', 'traffic') or nspowner is distinct from (select oid from auditor))
    union all
    select 6, format('grant usage, create on schema read to %s', name) from service s
     where not exists (select from pg_namespace n, aclexplode(n.nspacl) a
        where n.nspname = 'read' and a.grantee = s.oid and a.privilege_type = 'CREATE')
    union all
    select 7, format('alter table %I.%I owner to %s', nspname, relname, owner_name) from owned_table
     where relowner <> owner and (nspname in ('read', 'traffic') or relowner is distinct from (select oid from auditor))
    union all
    select 8, format('grant select on %I.%I to %s', nspname, relname, s.name) from service s, owned_table t
     where t.audited and (t.relowner <> t.owner or not has_table_privilege(s.oid, t.oid, 'select'))
    union all
    select 9, format('alter default privileges for role %s grant select on tables to %s', a.name, s.name)
      from auditor a, service s
     where not exists (select from pg_default_acl d, aclexplode(d.defaclacl) g
        where d.defaclrole = a.oid and d.defaclnamespace = 0 and d.defaclobjtype = 'r'
          and g.grantee = s.oid and g.privilege_type = 'SELECT')
  )
  select statement from missing order by step, statement`

/** The roles other than the owner's, by name. */
type Roles = {
  readonly service?: string
  /** The auditor's role; default: the role that already has its rights. */
  readonly auditor?: string | undefined
}

/**
 * Grants the roles the privileges that they need in a migrated database, and no more. The caller must be the owner of the
 * database and a member of the roles, or a superuser. No migration may run at the same time.
 * @returns the statements that were necessary
 */
const grantRoles = (client: pg.ClientBase, { service, auditor }: Roles): Promise<readonly string[]> =>
  transact(client, async () => {
    const { rows } = await client.query<{ statement: string }>(missingGrantsSql, [
      service,
      auditor,
      auditorTables,
    ])
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
    `the user of DATABASE_URL may not do what Farebox needs there (${message}). Make it the owner of the database, or set DATABASE_OWNER_URL to the address of the owner, who has to be a member of the roles of the service and the auditor (docs/operations/security.md).`,
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
 * With `service`, a role other than the migrating one, that role and the auditor's then get the privileges that they
 * need, and no more. `onGrant` gets the statements that were necessary.
 *
 * Kysely's own migrator stores no checksums, so it cannot detect an edited migration.
 * @throws MigrationRefused if the database is newer than the code, or an applied migration was edited; LockHeld if
 * another process migrates for longer than `withinMs`
 */
export const migrate = async (
  pool: pg.Pool,
  migrations: Migrations,
  options: Pick<TakeOptions, 'withinMs' | 'onWait'> &
    Roles & {
      readonly onGrant?: (statements: readonly string[]) => void
    } = {},
): Promise<readonly string[]> => {
  const { service, auditor, onGrant, ...waiting } = options
  const client = await pool.connect()
  try {
    allowSilence(client)
    await client.query("set lock_timeout = '60s'")
    await takeLock(client, lockKeys.migrating, { ...waiting, what: 'is migrating the database' })
    await makeRecord(client)
    const missing = missingOf(await readApplied(client), migrations)
    for (const name of missing) await applyOne(client, name, migrations[name] ?? '')
    if (service !== undefined) {
      const granted = await grantRoles(client, { service, auditor }).catch(throwRefusal)
      if (granted.length > 0) onGrant?.(granted)
    }
    return missing
  } finally {
    // Ends the session, which releases the lock, whatever state an error left it in.
    client.release(true)
  }
}
