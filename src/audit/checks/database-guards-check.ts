import type pg from 'pg'
import { auditorRoleSql, isAuditorsReadTable, serviceRoleSql } from '../../platform/postgres/migrate.ts'
import { inTransaction } from '../../platform/postgres/transaction.ts'
import { type Finding, type Findings, findingText } from './finding.ts'
import freshDatabaseGuards from './guards.json' with { type: 'json' }

/** Facts that are only available when the log is stored in Postgres. */
type LogFacts = {
  readonly unread: number
  readonly head: number
  readonly last: number
}

/**
 * Checks that no event of a log in Postgres is at a position that readers by position skip (its stream would still
 * return it), and that the head is the position of the last event. `checkGuards` checks the triggers that refuse
 * changes.
 */
export const checkAppendOnly = async (pool: pg.Pool, findings: Findings): Promise<void> => {
  // One statement reads one state of the log.
  const { rows } = await pool.query<LogFacts>(
    `select (select count(*) from log.events where position < 1 or position > h.last_position) as unread,
            h.last_position as head,
            coalesce((select max(position) from log.events), 0) as last
       from log.head h`,
  )
  const report = (problem: string): void => findings.addForLog('append-only', problem)
  const [facts] = rows
  if (facts === undefined) return report('the row of its head is gone')
  const { unread, head, last } = facts
  if (unread > 0) report(`${unread} events stand at positions outside of 1 to ${head}, where no reader looks`)
  if (last !== head) report(`its head is at position ${head}, its last event at ${last}`)
}

/**
 * Everything that protects the log from changes, by object (`table log.events`, `function log.refuse_change()`) and
 * fact (`owner`, `key events_pkey`, `body`). guards.json has the guards of a fresh database. Roles are named by their
 * function in this database.
 */
export type Guards = Readonly<Record<string, Readonly<Record<string, string>>>>

/** Tables outside the schema `log` that record what was checked, found and applied. All rights to them are listed. */
const auditTables = [
  'public.farebox_migration',
  'engine.checkpoints',
  'engine.auditor_locks',
  'work.event_digests',
  'work.verifications',
  'work.unsigned_events',
  'work.signatures_checked',
  'work.checked_events',
]

/**
 * Settings that change the meaning of statements, the visible rows or the triggers that fire. They must have the
 * default values of Postgres. Each session sets its own search path, so that of the server is not compared.
 */
const sessionSettings = [
  'session_replication_role',
  'search_path',
  'role',
  'row_security',
  'transform_null_equals',
  'array_nulls',
  'standard_conforming_strings',
  'allow_system_table_mods',
  'ignore_system_indexes',
  'ignore_checksum_failure',
  'zero_damaged_pages',
  'gin_fuzzy_search_limit',
]

/**
 * Every fact, as Postgres prints it.
 *
 * The schema `log` and the tables above are listed completely.
 *
 * Of the other tables that the server trusts (`work`, `vault`, `engine`, `read`, `traffic`), the query lists triggers, rules,
 * policies, inheriting tables, views that replace a table, a different owner, write rights of other roles, and rights
 * that the service lacks.
 *
 * Defaults, generated columns, types, constraints and indexes can run a function on every write or refuse the row. In
 * `work`, `vault`, `engine` and `traffic` all of them are listed. Read tables have no defaults, constraints or unique
 * indexes besides their primary keys, and the conditions of their indexes call no function. `ledger verify` compares
 * their columns and keys.
 *
 * The owner is the role that owns the record of the migrations, because that role created everything else. Rights of an
 * owner to its own objects are not facts: an owner can grant itself anything. The service is the role that may create
 * read tables, and the auditor is the role that has its rights (`auditorRoleSql`). One role may be two of them.
 * `not null` is part of the column's fact, because only Postgres 18 and later name it as a constraint. No statement fails
 * because a relation or a schema is missing.
 */
const factsSql = `
  with made as (
    select coalesce((select relowner from pg_class where oid = to_regclass('public.farebox_migration')),
        (select nspowner from pg_namespace where nspname = 'log')) as owner,
      ${serviceRoleSql} as service
  ), known as (
    select m.*, (${auditorRoleSql('m.service')}) as auditor from made m
  ), role as (
    select r.oid, case r.oid when k.owner then '<owner>' when k.service then '<service>' when k.auditor then '<auditor>'
        else r.rolname::text end as name
      from pg_roles r, known k
    union all select 0, '<everybody>'
  ), schema as (
    select n.oid, n.nspname, n.nspowner, n.nspacl from pg_namespace n where n.nspname in ('log', 'work', 'vault', 'engine', 'read')
  ), ours as (
    select n.oid from pg_namespace n where n.nspname in ('log', 'work', 'vault', 'engine', 'read', 'traffic')
  ), extended as (
    select d.classid, d.objid from pg_depend d, pg_extension e, known k
     where d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
       and (e.extowner <> k.service or k.service = k.owner)
  ), searched as (
    select n.oid from pg_namespace n where n.nspname in ('pg_catalog', 'public')
        or n.nspname in (select r.rolname from pg_roles r, known k where r.oid in (k.owner, k.service, k.auditor))
  ), trusted as (
    select c.*, case c.relkind when 'r' then 'table ' when 'S' then 'sequence ' when 'v' then 'view '
        else 'relation of kind ' || c.relkind::text || ' ' end || n.nspname || '.' || c.relname as object,
        n.nspname, n.nspname = 'log' or n.nspname || '.' || c.relname = any ($1::text[]) as whole,
        case when n.nspname = 'read' and ${isAuditorsReadTable('c.relname')} then coalesce(k.auditor, k.service)
          when n.nspname in ('read', 'traffic') then k.service else k.owner end as right_owner
      from pg_class c join pg_namespace n on n.oid = c.relnamespace, known k
     where c.relkind not in ('i', 'I', 'c', 't')
       and (n.oid in (select oid from ours) or n.nspname || '.' || c.relname = any ($1::text[]))
  ), relation as (
    select * from trusted where whole
  ), migrated as (
    select * from trusted where nspname <> 'read'
  ), routine as (
    select p.*, case p.prokind when 'f' then 'function ' else 'routine of kind ' || p.prokind::text || ' ' end
        || p.oid::regprocedure as object
      -- Functions of Postgres have lower numbers. Without this the planner expects all of them, and compiles the statement.
      from pg_proc p where p.oid >= 16384 and p.pronamespace in (select oid from ours)
  ), type as (
    select t.*, 'type log.' || t.typname as object
      from pg_type t left join pg_class c on c.oid = t.typrelid
     where t.typnamespace = to_regnamespace('log') and coalesce(c.relkind, 'c') = 'c' and not exists (select from pg_type e where e.typarray = t.oid)
  ), owned as (
    select 'schema ' || nspname as object, nspowner as owner, nspacl as acl, 'n' as kind from schema
    union all select object, relowner, relacl, case relkind when 'S' then 's' else 'r' end from relation
    union all select object, proowner, proacl, 'f' from routine
    union all select object, typowner, typacl, 'T' from type
  ), granted as (
    select o.object, 'rights' as fact, a.grantee, a.privilege_type, a.is_grantable
      from known k, owned o, aclexplode(coalesce(o.acl, acldefault(o.kind::"char", o.owner))) a where a.grantee <> o.owner
       and (o.kind <> 'n' or o.object = 'schema log' or a.grantee = k.service or a.privilege_type <> 'USAGE')
    union all
    select r.object, 'rights on column ' || c.attname, a.grantee, a.privilege_type, a.is_grantable
      from trusted r join pg_attribute c on c.attrelid = r.oid, aclexplode(c.attacl) a
     where a.grantee <> r.relowner and (r.whole or a.privilege_type <> 'SELECT')
    union all
    select 'schema ' || s.nspname, 'rights on what is made there, kind ' || d.defaclobjtype::text, a.grantee, a.privilege_type, a.is_grantable
      from pg_default_acl d join schema s on s.oid = d.defaclnamespace, aclexplode(d.defaclacl) a where a.grantee <> d.defaclrole
  )
  select o.object, 'owner' as fact, r.name as value from owned o join role r on r.oid = o.owner
  union all
  select g.object, g.fact || ' of ' || coalesce(r.name, g.grantee::text),
      string_agg(g.privilege_type || case when g.is_grantable then ' with grant option' else '' end, ', '
        order by g.privilege_type collate "C")
    from granted g left join role r on r.oid = g.grantee group by g.object, g.fact, coalesce(r.name, g.grantee::text)
  union all
  select object, 'form', concat_ws(', ',
      case relpersistence when 'p' then 'permanent' when 'u' then 'unlogged' else 'temporary' end,
      array_to_string(reloptions, ', '), case when relrowsecurity then 'row security' end)
    from relation
  union all
  select r.object, 'column ' || c.attname, concat_ws(' ', format_type(c.atttypid, c.atttypmod),
      case when c.attcollation <> t.typcollation then 'collate ' || l.collname end,
      case when c.attnotnull then 'not null' end,
      case when c.attgenerated = '' then 'default ' else 'generated ' end || pg_get_expr(d.adbin, d.adrelid),
      case when c.attidentity <> '' then 'identity ' || c.attidentity::text end)
    from migrated r join pg_attribute c on c.attrelid = r.oid and c.attnum > 0 and not c.attisdropped
    join pg_type t on t.oid = c.atttypid left join pg_collation l on l.oid = c.attcollation
    left join pg_attrdef d on d.adrelid = c.attrelid and d.adnum = c.attnum
   where r.relkind <> 'S'
  union all
  select r.object, case when k.contype in ('p', 'u', 'x') then 'key ' else 'constraint ' end || k.conname,
      concat_ws(', ', pg_get_constraintdef(k.oid), case when not k.convalidated then 'not validated' end,
        pg_get_indexdef(nullif(k.conindid, 0)), case when not i.indisvalid then 'not valid' end)
    from migrated r join pg_constraint k on k.conrelid = r.oid and k.contype not in ('n', 't')
    left join pg_index i on i.indexrelid = k.conindid and i.indrelid = r.oid
  union all
  select r.object, 'index ' || c.relname,
      concat_ws(', ', pg_get_indexdef(i.indexrelid), case when not i.indisvalid then 'not valid' end)
    from migrated r join pg_index i on i.indrelid = r.oid join pg_class c on c.oid = i.indexrelid
   where not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.conrelid = r.oid)
  union all
  select t.object, 'owner', coalesce(r.name, t.relowner::text)
    from trusted t left join role r on r.oid = t.relowner where not t.whole and t.relowner <> t.right_owner
  union all
  select t.object, 'rights of ' || coalesce(r.name, a.grantee::text),
      string_agg(a.privilege_type, ', ' order by a.privilege_type collate "C")
    from known k, trusted t, aclexplode(t.relacl) a left join role r on r.oid = a.grantee
   where not t.whole and a.grantee not in (t.relowner, k.owner)
     and (a.grantee in (k.service, k.auditor) and t.nspname <> 'read' or a.privilege_type not in ('SELECT', 'USAGE'))
   group by t.object, coalesce(r.name, a.grantee::text)
  union all
  select t.object, 'rights of its owner', 'not ' || string_agg(m.may, ', ' order by m.may collate "C")
    from trusted t, unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) m(may)
   where t.relkind = 'r' and t.relacl is not null
     and not exists (select from aclexplode(t.relacl) a where a.grantee = t.relowner and a.privilege_type = m.may)
   group by t.object
  union all
  select object, 'form', concat_ws(', ', case when relpersistence <> 'p' then 'not permanent' end,
      case when relrowsecurity then 'row security' end, case when relkind not in ('r', 'p', 'S') then 'no table' end)
    from trusted where not whole and (relpersistence <> 'p' or relrowsecurity or relkind not in ('r', 'p', 'S'))
  union all
  select t.object, 'constraint ' || k.conname, pg_get_constraintdef(k.oid)
    from trusted t join pg_constraint k on k.conrelid = t.oid where t.nspname = 'read' and k.contype in ('f', 'c', 'u', 'x')
  union all
  select t.object, 'column ' || c.attname, case when c.attgenerated = '' then 'default ' else 'generated ' end ||
      pg_get_expr(d.adbin, d.adrelid)
    from trusted t join pg_attrdef d on d.adrelid = t.oid join pg_attribute c on c.attrelid = t.oid and c.attnum = d.adnum
   where t.nspname = 'read'
  union all
  select t.object, 'index ' || c.relname, pg_get_indexdef(i.indexrelid)
    from trusted t join pg_index i on i.indrelid = t.oid join pg_class c on c.oid = i.indexrelid
   where t.nspname = 'read' and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
     and (i.indisunique and not i.indisprimary or i.indexprs is not null
       or pg_get_expr(i.indpred, i.indrelid) !~* '^([a-z_ ()<>=]|''[a-z_]+''::text)+$'
       or pg_get_expr(i.indpred, i.indrelid) ~* '[a-z_][(]')
  union all
  select 'schema ' || n.nspname, 'owner', r.name from known k, pg_namespace n join role r on r.oid = n.nspowner
   where n.nspname = 'traffic' and n.nspowner <> k.service
  union all
  select 'schema ' || n.nspname, 'rights of ' || r.name, string_agg(a.privilege_type, ', ' order by a.privilege_type)
    from known k, pg_namespace n, aclexplode(n.nspacl) a join role r on r.oid = a.grantee
   where n.nspname = 'traffic' and a.grantee not in (n.nspowner, k.owner) and a.privilege_type <> 'USAGE'
   group by n.nspname, r.name
  union all
  select t.object, 'key', 'none' from trusted t
   where t.nspname = 'read' and t.relkind = 'r'
     and not exists (select from pg_index i where i.indrelid = t.oid and i.indisprimary and i.indisvalid)
  union all
  select t.object, 'statistics ' || e.stxname, coalesce(pg_get_statisticsobjdef_expressions(e.oid)::text, '')
    from trusted t join pg_statistic_ext e on e.stxrelid = t.oid
  union all
  select r.object, 'trigger ' || g.tgname, concat_ws(', ', pg_get_triggerdef(g.oid),
      case g.tgenabled when 'O' then null when 'D' then 'disabled' when 'R' then 'on replicas only' else 'always' end)
    from trusted r join pg_trigger g on g.tgrelid = r.oid and not g.tgisinternal
  union all
  select r.object, 'rule ' || w.rulename, concat_ws(', ', pg_get_ruledef(w.oid),
      case w.ev_enabled when 'O' then null else 'enabled: ' || w.ev_enabled::text end)
    from trusted r join pg_rewrite w on w.ev_class = r.oid
  union all
  select r.object, 'policy ' || p.polname, concat_ws(', ', p.polcmd::text, pg_get_expr(p.polqual, p.polrelid),
      pg_get_expr(p.polwithcheck, p.polrelid))
    from trusted r join pg_policy p on p.polrelid = r.oid
  union all
  select r.object, 'rows of', h.inhrelid::regclass::text from trusted r join pg_inherits h on h.inhparent = r.oid
   where h.inhrelid not in (select oid from trusted where relispartition)
  union all
  select r.object, 'numbers', concat_ws(' ', format_type(s.seqtypid, null), 'from', s.seqmin, 'to', s.seqmax, 'by',
      s.seqincrement, 'cache', s.seqcache, case when s.seqcycle then 'cycle' end)
    from migrated r join pg_sequence s on s.seqrelid = r.oid
  union all
  select object, 'body', coalesce(pg_get_function_sqlbody(oid), prosrc) from routine
  union all
  select f.object, 'form', concat_ws(', ', l.lanname, 'returns ' || pg_get_function_result(f.oid),
      'takes (' || pg_get_function_arguments(f.oid) || ')', 'volatility ' || f.provolatile::text,
      case when f.prosecdef then 'as its owner' end, case when f.proisstrict then 'strict' end,
      case when f.proleakproof then 'leakproof' end, array_to_string(f.proconfig, ', '), nullif(f.probin, ''))
    from routine f join pg_language l on l.oid = f.prolang
  union all
  select object, 'form', typtype::text from type
  union all
  select 'role ' || r.name, 'may', string_agg(m.may, ', ')
    from known k join role r on r.oid in (k.service, k.auditor), unnest(array[
      case when pg_has_role(r.oid, k.owner, 'member') then 'act as <owner>' end,
      case when (select rolsuper from pg_roles where oid = r.oid) then 'everything, as a superuser' end,
      case when has_table_privilege(r.oid, to_regclass('log.events'), 'update, delete, truncate, trigger')
        then 'change the rows of log.events' end,
      case when has_table_privilege(r.oid, to_regclass('log.head'), 'insert, update, delete, truncate, trigger')
        then 'change the row of log.head' end,
      (select nullif(concat_ws(', ', case when s.rolcreaterole then 'make roles' end,
          case when s.rolcreatedb then 'make databases' end, case when s.rolreplication then 'replicate' end,
          case when s.rolbypassrls then 'pass by row security' end), '') from pg_roles s where s.oid = r.oid),
      (select 'act as ' || string_agg(m.roleid::regrole::text, ' and ' order by m.roleid::regrole::text collate "C")
         from pg_auth_members m where m.member = r.oid and m.roleid not in (k.owner, k.service)),
      case when has_schema_privilege(r.oid, to_regnamespace('log'), 'create') then 'make what it likes in the schema log' end
    ]) m(may) where r.oid <> k.owner and m.may is not null group by r.name
  union all
  select 'sessions', 'setting of ' || coalesce(r.name, d.setrole::text), s
    from pg_db_role_setting d left join role r on r.oid = d.setrole, unnest(d.setconfig) s
   where d.setdatabase in (0, (select oid from pg_database where datname = current_database()))
     and (s like 'session_replication_role=%' or split_part(s, '=', 1) = any ($2::text[])
       and d.setrole in (select 0 union all select unnest(array[owner, service, auditor]) from known))
  union all
  select 'sessions', 'server setting ' || name, reset_val from pg_settings
   where name = any ($2::text[]) and reset_val is distinct from boot_val and name <> 'search_path'
  union all
  select 'database', 'event trigger ' || e.evtname, 'on ' || e.evtevent || ' does ' || e.evtfoid::regprocedure
    from pg_event_trigger e
   where not exists (select from extended x where x.objid = e.oid and x.classid = 'pg_event_trigger'::regclass)
  union all
  select distinct 'database', 'publication ' || p.pubname, 'of ' ||
      coalesce(r.prrelid::regclass::text, 'all tables of ' || n.pnnspid::regnamespace, 'all tables')
    from pg_publication p
    left join (select r.* from pg_publication_rel r join trusted t on t.oid = r.prrelid) r on r.prpubid = p.oid
    left join (select n.* from pg_publication_namespace n join ours o on o.oid = n.pnnspid) n on n.pnpubid = p.oid
   where p.puballtables or r.oid is not null or n.oid is not null
  union all
  select 'database', 'subscription ' || subname, 'writes as ' || subowner::regrole
    from pg_subscription where subdbid = (select oid from pg_database where datname = current_database())
  union all
  select 'database', 'cast ' || format_type(castsource, null) || ' to ' || format_type(casttarget, null),
      case castcontext when 'i' then 'implicit' when 'a' then 'in assignments' else 'explicit' end
    from pg_cast c where c.oid >= 16384
     and not exists (select from extended x where x.objid = c.oid and x.classid = 'pg_cast'::regclass)
  union all
  select 'database', 'function ' || p.oid::regprocedure, 'has the name of one of Postgres'
    from pg_proc p join searched s on s.oid = p.pronamespace
   where p.oid >= 16384 and exists (select from pg_proc b where b.proname = p.proname and b.oid < 16384)
     and not exists (select from extended x where x.objid = p.oid and x.classid = 'pg_proc'::regclass)
  union all
  select 'database', 'function ' || p.oid::regprocedure, 'runs as ' || r.name || ', and <service> may call it'
    from known k, pg_proc p join role r on r.oid = p.proowner
   where p.oid >= 16384 and p.prosecdef and p.pronamespace not in (select oid from ours)
     and p.proowner in (k.owner, k.auditor) and p.proowner <> k.service and has_function_privilege(k.service, p.oid, 'execute')
     and not exists (select from extended x where x.objid = p.oid and x.classid = 'pg_proc'::regclass)
  union all
  select 'database', 'extension ' || e.extname, 'of <service>'
    from pg_extension e, known k where e.extowner = k.service and k.service <> k.owner
  union all
  select 'database', 'operator ' || o.oid::regoperator, 'has the name of one of Postgres'
    from pg_operator o join searched s on s.oid = o.oprnamespace
   where o.oid >= 16384 and exists (select from pg_operator b where b.oprname = o.oprname and b.oid < 16384)
     and not exists (select from extended x where x.objid = o.oid and x.classid = 'pg_operator'::regclass)
  union all
  select 'database', 'operator class ' || o.opcname, 'default of ' || format_type(o.opcintype, null)
    from pg_opclass o where o.oid >= 16384 and o.opcdefault and o.opcintype < 16384
     and not exists (select from extended x where x.objid = o.oid and x.classid = 'pg_opclass'::regclass)
  union all
  select 'database', 'conversion ' || conname, 'default' from pg_conversion where oid >= 16384 and condefault`

type Row = { readonly object: string; readonly fact: string; readonly value: string }

const guardsOf = (rows: readonly Row[]): Guards => {
  const guards: Record<string, Record<string, string>> = {}
  for (const { object, fact, value } of rows) {
    guards[object] ??= {}
    const previousValue = guards[object][fact]
    guards[object][fact] = previousValue === undefined ? value : [previousValue, value].sort().join('; ')
  }
  return guards
}

/** The guards of this database, from one snapshot. */
export const readGuards = (pool: pg.Pool): Promise<Guards> =>
  inTransaction(
    pool,
    async (client) => {
      // An empty search path makes Postgres print every name with its schema.
      await client.query(`set local search_path = ''`)
      // A database, a role or the server can change the output format of Postgres.
      await client.query(`set local quote_all_identifiers = off`)
      await client.query(`set local intervalstyle = postgres`)
      await client.query(`set local bytea_output = hex`)
      const { rows } = await client.query<Row>(factsSql, [auditTables, sessionSettings])
      const readable = await client.query<{ may: boolean | null }>(
        `select has_table_privilege(to_regclass('public.farebox_migration'), 'select') as may`,
      )
      if (readable.rows[0]?.may !== true) return guardsOf(rows)
      const applied = await client.query<Row>(
        `select 'migrations' as object, name as fact, checksum as value from public.farebox_migration`,
      )
      return guardsOf([...rows, ...applied.rows])
    },
    'isolation level repeatable read read only',
  )

/**
 * The guards of a fresh, migrated database. test/audit/checks/database-guards.test.ts generates them and compares them
 * with such a database.
 */
export const expectedGuards: Guards = freshDatabaseGuards

type Difference = {
  readonly object: string
  /** Null: the whole object is missing or unexpected. */
  readonly fact: string | null
  /** Null: not expected. */
  readonly expected: string | null
  /** Null: not found. */
  readonly found: string | null
}

/** The first line that differs in texts of several lines; `-` where one text has no such line. */
const firstDifference = (expected: string, found: string): Pick<Difference, 'expected' | 'found'> => {
  const [one, other] = [expected.split('\n'), found.split('\n')]
  if (one.length === 1 && other.length === 1) return { expected, found }
  const length = Math.max(one.length, other.length)
  const index = Array.from({ length }, (_, n) => n).find((n) => one[n] !== other[n]) ?? 0
  const line = (lines: readonly string[]): string => `line ${index + 1}: ${lines[index]?.trim() ?? '-'}`
  return { expected: line(one), found: line(other) }
}

/** Facts of an object that only one database has. Omits the body, because a function can be long. */
const factsText = ({ body: _, ...facts }: Readonly<Record<string, string>>): string =>
  Object.entries(facts)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([fact, value]) => `${fact} ${value}`)
    .join(', ')
    .slice(0, 500)

const sortedKeys = (...objects: readonly object[]): string[] =>
  [...new Set(objects.flatMap(Object.keys))].sort()

/** The service writes nothing to a table that no migration made, so the form of such a table is no difference. */
const factsOfOther = (object: string, facts: Guards[string] = {}): Guards[string] | undefined => {
  const others = Object.entries(facts).filter(
    ([fact]) =>
      !/^table (work|vault|engine|traffic)[.]/.test(object) || !/^(column|key|constraint|index) /.test(fact),
  )
  return others.length === 0 ? undefined : Object.fromEntries(others)
}

/** Differences of two databases, by object and fact. An object that only one database has is one difference. */
export const compareGuards = (expected: Guards, found: Guards): readonly Difference[] =>
  sortedKeys(expected, found).flatMap((object): Difference[] => {
    const one = expected[object]
    const other = one === undefined ? factsOfOther(object, found[object]) : found[object]
    if (one === undefined && other === undefined) return []
    if (one === undefined || other === undefined)
      return [
        { object, fact: null, expected: one ? factsText(one) : null, found: other ? factsText(other) : null },
      ]
    return sortedKeys(one, other).flatMap((fact): Difference[] => {
      const [expectedValue, foundValue] = [one[fact] ?? null, other[fact] ?? null]
      if (expectedValue === foundValue) return []
      return [
        {
          object,
          fact,
          ...(expectedValue !== null && foundValue !== null
            ? firstDifference(expectedValue, foundValue)
            : { expected: expectedValue, found: foundValue }),
        },
      ]
    })
  })

const serviceRights = 'rights of <service>'
const auditorRights = 'rights of <auditor>'

/**
 * The guards of a database with as many roles. Without an auditor of its own, the service has the rights of both. When one
 * role is owner and service, no rights are granted.
 */
const expectedOf = (found: Guards): Guards => {
  const has = (right: string): boolean => Object.values(found).some((facts) => right in facts)
  if (has(auditorRights)) return expectedGuards
  const hasService = has(serviceRights)
  const isOfService = (fact: string): boolean => fact.endsWith(' of <service>')
  return Object.fromEntries(
    Object.entries(expectedGuards).map(([object, { [auditorRights]: auditor, ...facts }]) => [
      object,
      hasService
        ? { ...facts, ...(auditor !== undefined && { [serviceRights]: auditor }) }
        : Object.fromEntries(Object.entries(facts).filter(([fact]) => !isOfService(fact))),
    ]),
  )
}

const guardFindings = async (pool: pg.Pool): Promise<readonly Finding[]> => {
  const found = await readGuards(pool)
  return compareGuards(expectedOf(found), found).map((difference) => ({
    where: 'guard',
    check: 'guards',
    ...difference,
  }))
}

/** Server settings that protect acknowledged writes. When one is off, a crash of the machine loses or damages them. */
const durableSettings = ['fsync', 'full_page_writes']

/** Names of the settings that are off. The log is still intact, so sealing continues. */
export const readUnsafeSettings = async (pool: pg.Pool): Promise<readonly string[]> => {
  const { rows } = await pool.query<{ name: string }>(
    `select name from pg_settings where name = any ($1::text[]) and setting = 'off' order by name`,
    [durableSettings],
  )
  return rows.map(({ name }) => name)
}

/**
 * Checks that the functions, keys, indexes, triggers, owners and rights that protect the log are those that the
 * migrations made, and that acknowledged writes survive a crash.
 */
export const checkGuards = async (pool: pg.Pool, findings: Findings): Promise<void> => {
  for (const finding of await guardFindings(pool)) findings.add(finding)
  for (const name of await readUnsafeSettings(pool))
    findings.add({
      where: 'guard',
      check: 'guards',
      object: 'sessions',
      fact: `server setting ${name}`,
      expected: 'on',
      found: 'off',
    })
}

/** An alarm text about the differences from the migrations; null without any. */
export const readGuardProblem = async (pool: pg.Pool): Promise<string | null> => {
  const [first, ...others] = await guardFindings(pool)
  if (first === undefined) return null
  const more = others.length === 0 ? '' : `, and ${others.length} more`
  return `the database was changed: ${findingText(first)}${more}; "ledger verify" names all`
}
