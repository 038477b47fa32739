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
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { testDatabase, twoUsers } from '../../support/postgres.ts'

const file = join(import.meta.dirname, '../../../src/audit/checks/guards.json')

/** `FAREBOX_GUARDS=make npm test -- test/audit/checks/database-guards` writes what a fresh database has. */
test('guards.json is what the migrations make', async (t) => {
  const { service } = await twoUsers(t)
  const { pool } = await testDatabase(t)
  await migrate(pool, allMigrations, { service })
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

const found = async (pool: pg.Pool): Promise<readonly string[]> => {
  const findings = createFindings()
  await checkGuards(pool, findings)
  return findings.list().map(findingText)
}

/** What somebody who owns the database does to it, and what is said of that: all of it, in this order. */
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
  ['create table log.kept as select * from log.events', /^guards: table log\.kept: expected none, found /],
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
]

for (const [sql, ...expected] of mutations)
  test(`found by verify: ${sql.slice(0, 100)}`, async (t) => {
    const { pool } = await testDatabase(t)
    await pool.query(sql)
    const said = await found(pool)
    assert.equal(said.length, expected.length, said.join('\n'))
    for (const [at, one] of expected.entries()) assert.match(said[at] ?? '', one)
  })
