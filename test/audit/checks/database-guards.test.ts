import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type pg from 'pg'
import { allMigrations } from '../../../src/app/migrations.ts'
import {
  checkGuards,
  compareGuards,
  expectedGuards,
  readGuards,
} from '../../../src/audit/checks/database-guards-check.ts'
import { createFindings, findingText } from '../../../src/audit/checks/finding.ts'
import { startEmbeddedPostgres } from '../../../src/platform/postgres/embedded.ts'
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { atEnd } from '../../support/cleanup.ts'
import { dataDirectory } from '../../support/farebox.ts'
import { databaseUsers, emptyDatabase, testDatabase } from '../../support/postgres.ts'

const file = join(import.meta.dirname, '../../../src/audit/checks/guards.json')

/**
 * `FAREBOX_GUARDS=make npm test -- test/audit/checks/database-guards` writes the guards of a new database.
 */
test('guards.json matches the migrations', async (t) => {
  const { service, auditor } = await databaseUsers(t)
  const { pool } = await testDatabase(t)
  await migrate(pool, allMigrations, { service, auditor })
  const fresh = await readGuards(pool)
  if (process.env.FAREBOX_GUARDS === 'make') {
    const sorted = Object.keys(fresh)
      .sort()
      .map((object) => [object, Object.fromEntries(Object.entries(fresh[object] ?? {}).sort())])
    writeFileSync(file, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`)
  } else
    assert.deepEqual(
      compareGuards(expectedGuards, fresh),
      [],
      'a migration changed a guard: FAREBOX_GUARDS=make npm test -- test/audit/checks/database-guards',
    )
})

test('a server without fsync is reported, because a crash of its machine loses orders', async (t) => {
  const dataDir = await dataDirectory(t)
  const server = await startEmbeddedPostgres({ dataDir, settings: { fsync: 'off' } })
  atEnd(t, () => server.stop())
  const pool = createPool({ url: server.ownerUrl, applicationName: 'farebox-test' })
  atEnd(t, () => pool.end())
  await migrate(pool, allMigrations)
  assert.deepEqual(await found(pool), ['guards: sessions, server setting fsync: expected "on", found "off"'])
})

const found = async (pool: pg.Pool): Promise<readonly string[]> => {
  const findings = createFindings()
  await checkGuards(pool, findings)
  return findings.list().map(findingText)
}

/** Changes by an owner of the database and their complete findings, in this order. */
const mutations: readonly (readonly [sql: string, ...findings: RegExp[]])[] = [
  [
    `do $$ begin execute replace(pg_get_functiondef('log.refuse_change'::regproc), 'raise exception', 'raise notice'); end $$`,
    /^guards: function log\.refuse_change\(\), body: expected "line 3: raise exception '.*", found "line 3: raise notice '.*"$/,
  ],
  [
    'alter function log.begin_batch security invoker',

    /^guards: function log\.begin_batch\(.*\), form: expected "plpgsql, .*as its owner.*", found "plpgsql, .*"$/,
  ],
  ['drop function log.close_batch', /^guards: function log\.close_batch\(\): expected ".*", found none$/],
  [
    `create function log.helper() returns int language sql as 'select 1'`,
    /^guards: function log\.helper\(\): expected none, found ".*sql, returns integer.*"$/,
  ],
  [
    'create table read.found (id text primary key); alter table read.found add constraint mute check (id <> $$a$$) not valid',
    /^guards: table read\.found: expected none, found "constraint mute CHECK .*"$/,
  ],
  [
    'create table read.found (id text primary key); create unique index mute on read.found ((true))',
    /^guards: table read\.found: expected none, found "index mute CREATE UNIQUE INDEX .*"$/,
  ],
  ['create table log.saved as select * from log.events', /^guards: table log\.saved: expected none, found /],
  [
    'drop index work.verifications_started_at_run_id_idx',
    /^guards: table work\.verifications, index verifications_started_at_run_id_idx: expected "CREATE INDEX .*", found none$/,
  ],
  [
    'create index more on log.events (type)',
    /^guards: table log\.events, index more: expected none, found "CREATE INDEX .*"$/,
  ],
  [
    'alter table log.events drop constraint events_stream_revision_key',
    /^guards: table log\.events, key events_stream_revision_key: expected "UNIQUE \(stream, revision\).*", found none$/,
  ],
  [
    `update pg_index set indisvalid = false where indexrelid = 'log.events_pkey'::regclass`,
    /^guards: table log\.events, key events_pkey: expected ".*", found ".*, not valid"$/,
  ],
  [
    'alter table log.head drop constraint head_singleton_check',
    /^guards: table log\.head, constraint head_singleton_check: expected "CHECK \(singleton\)", found none$/,
  ],
  [
    'alter table log.events disable trigger append_only',
    /^guards: table log\.events, trigger append_only: expected ".*", found ".*, disabled"$/,
  ],
  [
    'alter table log.events enable replica trigger append_only',
    /^guards: table log\.events, trigger append_only: expected ".*", found ".*, on replicas only"$/,
  ],
  [
    'drop trigger never_removed on log.head',
    /^guards: table log\.head, trigger never_removed: expected "CREATE TRIGGER .*", found none$/,
  ],
  [
    'create trigger more before insert on log.events for each row execute function log.refuse_change()',
    /^guards: table log\.events, trigger more: expected none, found "CREATE TRIGGER more .*"$/,
  ],
  [
    'create rule hide as on delete to log.events do instead nothing',
    /^guards: table log\.events, rule hide: expected none, found "CREATE RULE hide .*"$/,
  ],
  [
    'alter table log.events enable row level security; create policy few on log.events using (position < 7)',
    /^guards: table log\.events, form: expected "permanent", found "permanent, row security"$/,
    /^guards: table log\.events, policy few: expected none, found ".*< 7.*"$/,
  ],
  [
    'alter table log.events set unlogged',
    /^guards: table log\.events, form: expected "permanent", found "unlogged"$/,
  ],
  [
    'alter table log.events alter column data drop not null, alter column position set default 7',
    /^guards: table log\.events, column data: expected "text not null", found "text"$/,
    /^guards: table log\.events, column position: expected ".*nextval.*", found "bigint not null default 7"$/,
  ],
  [
    'alter table log.events owner to pg_monitor',
    /^guards: table log\.events, owner: expected "<owner>", found "pg_monitor"$/,
  ],
  [
    'alter function log.refuse_change owner to pg_monitor',
    /^guards: function log\.refuse_change\(\), owner: expected "<owner>", found "pg_monitor"$/,
  ],
  [
    'grant update, delete on log.events to pg_monitor',
    /^guards: table log\.events, rights of pg_monitor: expected none, found "DELETE, UPDATE"$/,
  ],
  [
    'grant insert (data) on log.events to public',
    /^guards: table log\.events, rights on column data of <everybody>: expected none, found "INSERT"$/,
  ],
  [
    'grant usage on schema log to pg_monitor with grant option',
    /^guards: schema log, rights of pg_monitor: expected none, found "USAGE with grant option"$/,
  ],
  [
    'alter default privileges in schema log grant update on tables to pg_monitor',
    /^guards: schema log, rights on what is made there, kind r of pg_monitor: expected none, found "UPDATE"$/,
  ],
  [
    'alter sequence log.positions increment 2',
    /^guards: sequence log\.positions, numbers: expected ".* by 1 cache 1", found ".* by 2 cache 1"$/,
  ],
  [
    `do $$ begin execute format('alter database %I set session_replication_role = replica', current_database()); end $$`,
    /^guards: sessions: expected none, found "setting of <everybody> session_replication_role=replica"$/,
  ],
  [
    'delete from work.event_digests; alter table work.event_digests drop constraint event_digests_pkey',
    /^guards: table work\.event_digests, key event_digests_pkey: expected ".*", found none$/,
  ],
  [
    `create table read.few (id text primary key); create trigger mute before insert on read.few for each row execute function work.tell_queue()`,
    /^guards: table read\.few, trigger mute: expected none|^guards: table read\.few: expected none, found "trigger mute CREATE TRIGGER mute /,
  ],
  [
    'create rule mute as on insert to work.unsigned_events do instead nothing',
    /^guards: table work\.unsigned_events, rule mute: expected none, found "CREATE RULE mute /,
  ],
  [
    'create trigger mute before update on work.signatures_checked for each row execute function suppress_redundant_updates_trigger()',
    /^guards: table work\.signatures_checked, trigger mute: expected none, found "CREATE TRIGGER mute /,
  ],
  [
    'create unique index mute on work.unsigned_events ((true))',
    /^guards: table work\.unsigned_events, index mute: expected none, found "CREATE UNIQUE INDEX mute /,
  ],
  [
    'create rule mute as on update to vault.api_keys do instead nothing',
    /^guards: table vault\.api_keys, rule mute: expected none, found "CREATE RULE mute /,
  ],
  [
    'alter table work.messages disable trigger tell_queue_of_new',
    /^guards: table work\.messages, trigger tell_queue_of_new: expected ".*", found ".*, disabled"$/,
  ],
  [
    `do $$ begin execute replace(pg_get_functiondef('engine.forget_last_event'::regproc), 'return new', 'return null'); end $$`,
    /^guards: function engine\.forget_last_event\(\), body: /,
  ],
  [
    'create table public.child () inherits (vault.api_keys)',
    /^guards: table vault\.api_keys, rows of: expected none, found "public\.child"$/,
  ],
  [
    'alter table vault.accounts enable row level security',
    /^guards: table vault\.accounts, form: expected none, found "row security"$/,
  ],
  [
    'alter table work.messages owner to pg_monitor',
    /^guards: table work\.messages, owner: expected none, found "pg_monitor"$/,
  ],
  [
    'grant select, insert on vault.api_keys to pg_monitor',
    /^guards: table vault\.api_keys, rights of pg_monitor: expected none, found "INSERT"$/,
  ],
  [
    `create function public.on_ddl() returns event_trigger language plpgsql as 'begin end';
     create event trigger watch on ddl_command_start execute function public.on_ddl()`,
    /^guards: database: expected none, found "event trigger watch on ddl_command_start does public\.on_ddl\(\)"$/,
  ],
  [
    'create publication copies for table log.events',
    /^guards: database: expected none, found "publication copies of log\.events"$/,
  ],
  [
    'create publication copies for tables in schema vault',
    /^guards: database: expected none, found "publication copies of all tables of vault"$/,
  ],
  [
    'create cast (text as integer) with inout as implicit',
    /^guards: database: expected none, found "cast text to integer implicit"$/,
  ],
  [
    `create function public.lower(varchar) returns text language sql as 'select $1::text'`,
    /^guards: database: expected none, found "function public\.lower\(character varying\) has the name of one of Postgres"$/,
  ],
  [
    `create function public.same(text, uuid) returns boolean language sql as 'select true';
     create operator public.= (leftarg = text, rightarg = uuid, function = public.same)`,
    /^guards: database: expected none, found "operator public\.=\(text,uuid\) has the name of one of Postgres"$/,
  ],
  [
    `do $$ begin execute format('alter database %I set search_path = elsewhere, public', current_database()); end $$`,
    /^guards: sessions: expected none, found "setting of <everybody> search_path=elsewhere, public"$/,
  ],
  [
    `do $$ begin execute format('alter database %I set row_security = off', current_database()); end $$`,
    /^guards: sessions: expected none, found "setting of <everybody> row_security=off"$/,
  ],
  [
    `create function public.runs(text) returns text immutable language sql as 'select $1';
     create index mute on work.gateway_inbox (public.runs(event_id)); create index mute on vault.api_keys (key_id) where public.runs(key_id) <> ''`,
    /^guards: table vault\.api_keys, index mute: expected none, found "CREATE INDEX mute .*runs/,
    /^guards: table work\.gateway_inbox, index mute: expected none, found "CREATE INDEX mute .*runs/,
  ],
  [
    `create function public.runs(text) returns text immutable language sql as 'select $1';
     create table read.few (id text primary key); create index mute on read.few (public.runs(id)); create index mute_too on read.few (id) where public.runs(id) <> 'a';
     create index fits on read.few (id) where id <> 'a' and not id is null`,
    /^guards: table read\.few: expected none, found "index mute CREATE INDEX [^"]*runs.*, index mute_too CREATE INDEX [^"]*WHERE \(public\.runs\(id\) <> 'a'::text\)"$/,
  ],
  [
    `create table read.few (id text primary key default query_to_xml('select 1', true, true, '')::text)`,
    /^guards: table read\.few: expected none, found "column id default .*query_to_xml/,
  ],
  ['create table read.few (id text)', /^guards: table read\.few: expected none, found "key none"$/],
  [
    `create table read.few (id text primary key); update pg_index set indisvalid = false where indrelid = 'read.few'::regclass`,
    /^guards: table read\.few: expected none, found "key none"$/,
  ],
  [
    'alter table traffic.metered_hours drop constraint metered_hours_pkey',
    /^guards: table traffic\.metered_hours, key metered_hours_pkey: expected "PRIMARY KEY .*", found none$/,
  ],
  [
    'create rule mute as on insert to traffic.metered_hours do instead nothing',
    /^guards: table traffic\.metered_hours, rule mute: expected none, found "CREATE RULE mute /,
  ],
  [
    'alter table traffic.merged_hours owner to pg_monitor; alter schema traffic owner to pg_monitor',
    /^guards: schema traffic: expected none, found "owner pg_monitor"$/,
    /^guards: table traffic\.merged_hours, owner: expected none, found "pg_monitor"$/,
  ],
  [
    'alter table traffic.requests rename to hidden',
    /^guards: relation of kind p traffic\.hidden: expected none, found /,
    /^guards: relation of kind p traffic\.requests: expected ".*", found none$/,
  ],
  [
    `create table traffic.requests_20261129 partition of traffic.requests for values from ('2026-11-29') to ('2026-11-30');
     create trigger mute before insert on traffic.requests_20261129 for each row execute function suppress_redundant_updates_trigger()`,
    /^guards: table traffic\.requests_20261129: expected none, found "trigger mute /,
  ],
  [
    'alter table work.deposit_looks add constraint mute check (attempts < 3)',
    /^guards: table work\.deposit_looks, constraint mute: expected none, found "CHECK /,
  ],
  [
    `alter table work.gateway_inbox alter column status set default 'done'`,
    /^guards: table work\.gateway_inbox, column status: expected ".*'pending'.*", found ".*'done'.*"$/,
  ],
  [
    `alter table work.messages add column mute text generated always as (status || 'a') stored`,
    /^guards: table work\.messages, column mute: expected none, found "text generated /,
  ],
  [
    `create domain public.mute as text check (value <> 'a'); alter table work.gateway_inbox alter column result type public.mute`,
    /^guards: table work\.gateway_inbox, column result: expected "text", found "public\.mute"$/,
  ],
  [
    'create statistics work.mute on (length(event_id)) from work.gateway_inbox',
    /^guards: table work\.gateway_inbox, statistics mute: expected none, found "\{length\(event_id\)\}"$/,
  ],
  [
    'alter table vault.console_passkeys drop constraint console_passkeys_credential_id_key',
    /^guards: table vault\.console_passkeys, key console_passkeys_credential_id_key: expected "UNIQUE .*", found none$/,
  ],
  [
    'grant update (hash) on vault.api_keys to public; grant select (hash) on vault.api_keys to pg_monitor',
    /^guards: table vault\.api_keys, rights on column hash of <everybody>: expected none, found "UPDATE"$/,
  ],
  [
    'grant usage, create on schema vault to pg_monitor; grant usage on schema work to pg_monitor',
    /^guards: schema vault, rights of pg_monitor: expected none, found "CREATE"$/,
  ],
  [
    'create table read.few (id text primary key); revoke insert on read.few from current_user',
    /^guards: table read\.few: expected none, found "rights of its owner not INSERT"$/,
  ],
]

for (const [sql, ...expected] of mutations)
  test(`verify finds: ${sql.slice(0, 100)}`, async (t) => {
    const { pool } = await testDatabase(t)
    await pool.query(sql)
    const said = await found(pool)
    assert.equal(said.length, expected.length, said.join('\n'))
    for (const [at, one] of expected.entries()) assert.match(said[at] ?? '', one)
  })

/** As `alter system set`, which would change the server of every test. */
test('verify finds a session setting of the server', async (t) => {
  const { url } = await testDatabase(t)
  const given = new URL(url)
  given.searchParams.set('options', '-c session_replication_role=replica')
  const pool = createPool({ url: given.toString(), applicationName: 'farebox-test' })
  t.after(() => pool.end())
  assert.deepEqual(await found(pool), [
    'guards: sessions: expected none, found "server setting session_replication_role replica"',
  ])
})

test('verify finds a missing right to a table', async (t) => {
  const { service } = await databaseUsers(t)
  const { pool } = await testDatabase(t)
  await migrate(pool, allMigrations, { service })
  await pool.query(
    `revoke select on vault.console_passkeys from ${service}; revoke usage on schema work from ${service}`,
  )
  const said = await found(pool)
  assert.match(said[0] ?? '', /^guards: schema work, rights of <service>: expected "USAGE", found none$/)
  assert.match(
    said[1] ?? '',
    /^guards: table vault\.console_passkeys, rights of <service>: expected ".*SELECT.*", found "DELETE, INSERT, UPDATE"$/,
  )
})

test('verify finds a service role that may create roles or act as another role', async (t) => {
  const { service } = await databaseUsers(t)
  const { pool } = await testDatabase(t)
  await migrate(pool, allMigrations, { service })
  assert.deepEqual(await found(pool), [])
  await pool.query(`alter role ${service} createrole; grant pg_write_all_data to ${service}`)
  assert.match(
    (await found(pool)).join('\n'),
    /role <service>.*make roles; act as pg_write_all_data|make roles, act as pg_write_all_data/,
  )
})

test('verify finds what the service or the auditor may beyond its own tables, and an owner puts it back', async (t) => {
  const { owner, service, auditor, as } = await databaseUsers(t)
  const { url } = await emptyDatabase(t)
  const poolOf = (url: string) => {
    const pool = createPool({ url, applicationName: 'farebox-test' })
    atEnd(t, () => pool.end())
    return pool
  }
  const [admin, owners, pool] = [poolOf(url), poolOf(as(url, owner)), poolOf(as(url, service))]
  await admin.query(`alter database ${new URL(url).pathname.slice(1)} owner to ${owner}`)
  await migrate(owners, allMigrations, { service })
  await pool.query('create table read.audit_wallets (id text primary key)')
  assert.deepEqual(await found(pool), [])
  await migrate(owners, allMigrations, { service, auditor })
  assert.deepEqual(await found(pool), [])
  assert.equal((await pool.query('select from read.audit_wallets')).rowCount, 0)
  await admin.query(
    `grant update on work.checked_events to ${service}; grant insert on engine.auditor_locks to ${service};
     alter table read.audit_wallets owner to ${service}; grant pg_write_all_data to ${auditor}`,
  )
  assert.deepEqual(await found(pool), [
    'guards: role <auditor>: expected none, found "may change the rows of log.events, change the row of log.head, act as pg_write_all_data"',
    'guards: table engine.auditor_locks, rights of <service>: expected "SELECT", found "INSERT, SELECT"',
    'guards: table read.audit_wallets: expected none, found "owner <service>"',
    'guards: table work.checked_events, rights of <service>: expected "SELECT", found "SELECT, UPDATE"',
  ])
  await admin.query(`revoke pg_write_all_data from ${auditor}`)
  // Also a start without the auditor's address.
  await migrate(owners, allMigrations, { service })
  assert.deepEqual(await found(pool), [])
})
