import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { groups } from '../../../projections/groups.ts'
import { allMigrations } from '../../../src/app/migrations.ts'
import { openScratch, planForWholeTables } from '../../../src/audit/checks/rederive.ts'
import { verifyLog } from '../../../src/audit/verify.ts'
import { newId } from '../../../src/kernel/ids.ts'
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { atEnd } from '../../support/cleanup.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { databaseUsers, testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { commandLine } from '../command-line.ts'
import { appendEach, everyKind, testKey } from '../world.ts'

const cut = (client: pg.Client): void => {
  client.on('error', () => undefined)
  ;(client as unknown as { connection: { stream: Socket } }).connection.stream.destroy()
}

/** A verification whose process was killed while a statement of it ran for long. */
const killedVerification = async (pool: pg.Pool) => {
  const scratch = await openScratch(pool, newId('vrf'))
  const { client } = await scratch.session()
  await client.query(`create table ${scratch.schema}.some as select 1 as n`)
  const running = client.query(`select count(*) from ${scratch.schema}.some, generate_series(1, 1e12)`)
  running.catch(() => undefined)
  await until(async () => (await verifying(pool, 'active')) > 0)
  return { scratch, client }
}

const verifying = async (pool: pg.Pool, state = '%'): Promise<number> => {
  const { rowCount } = await pool.query(
    `select from pg_stat_activity where datname = current_database() and application_name = 'farebox verify'
       and state like $1::text`,
    [state],
  )
  return rowCount ?? 0
}

const connected = async (t: TestContext, url: string, name: string): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: url, application_name: name })
  await client.connect()
  atEnd(t, () => client.end())
  return client
}

test('a killed verification leaves no statement running in Postgres', async (t) => {
  const { pool } = await testDatabase(t)
  const { client } = await killedVerification(pool)
  cut(client)
  await until(async () => (await verifying(pool, 'active')) === 0, { what: 'the end of its statement' })
})

test('a verification prints which session it waits for before it removes the remains of a killed one', async (t) => {
  const { pool, url } = await testDatabase(t)
  const { scratch } = await killedVerification(pool)
  const { rows } = await pool.query(
    `select pid, state from pg_stat_activity where datname = current_database() and application_name = 'farebox verify'`,
  )
  // The session that holds the lock of the run ends; a statement of another session runs on.
  for (const { pid, state } of rows)
    if (state === 'idle') await pool.query('select pg_terminate_backend($1)', [pid])
  const looking = await connected(t, url, 'psql')
  await looking.query(`begin; select from ${scratch.schema}.some`)
  const messages: string[] = []
  const opening = openScratch(pool, newId('vrf'), { onWait: (text) => messages.push(text) })
  await until(() =>
    messages.some((text) => /^waiting for process \d+ of Postgres \(psql\): it uses verify_/.test(text)),
  )
  await looking.query('commit')
  const next = await opening
  assert.notEqual(next.schema, scratch.schema)
  const left = await pool.query("select nspname from pg_namespace where nspname like 'verify\\_%'")
  assert.deepEqual(left.rows, [{ nspname: next.schema }])
  await next.close()
})

const leftSchemas = async (pool: pg.Pool): Promise<readonly string[]> => {
  const { rows } = await pool.query<{ name: string }>(
    "select nspname as name from pg_namespace where nspname like 'verify\\_%' order by 1",
  )
  return rows.map(({ name }) => name)
}

test('a verification removes remains of any name, and those that it cannot remove are a finding', async (t) => {
  const { run, pool } = await commandLine(t)
  await pool.query(`
    create function refuse() returns event_trigger language plpgsql as $$ begin
      if current_query() like '%verify_held%' then raise 'not this one'; end if;
    end $$;
    create event trigger refuse on ddl_command_start when tag in ('DROP SCHEMA') execute function refuse();
    create schema verify_held; create schema "verify_x y"`)
  const { code, err } = await run('ledger', 'verify')
  assert.equal(code, 1)
  assert.match(
    err,
    /verifications: the schema verify_held of a killed verification cannot be dropped: not this/,
  )
  assert.deepEqual(await leftSchemas(pool), ['verify_held'])
})

test('a verification waits a limited time for a session that uses such remains', async (t) => {
  const { pool, url } = await testDatabase(t)
  await pool.query('create schema verify_used; create table verify_used.some as select 1 as n')
  const reading = await connected(t, url, 'psql')
  await reading.query('begin; select from verify_used.some')
  const scratch = await openScratch(pool, newId('vrf'), { waitMs: 0 })
  await scratch.close()
  assert.match(
    scratch.problems.join(),
    /^the schema verify_used of a killed .* dropped: process \d+ of Postgres \(psql\) uses it$/,
  )
})

test('a run has its lock before other sessions can read its name', async (t) => {
  const { run, pool } = await commandLine(t)
  await pool.query(`
    create function try_lock() returns trigger language plpgsql as $$ begin
      if pg_try_advisory_xact_lock(hashtextextended('farebox verify_' || right(new.run_id, 24), 0))
        then raise 'the lock was free'; end if;
      return new;
    end $$;
    create trigger try_lock before insert on work.verifications for each row execute function try_lock()`)
  assert.doesNotMatch((await run('ledger', 'verify')).err, /the lock was free/)
})

test('a verification whose record is locked ends with a finding', async (t) => {
  const { run, pool, url } = await commandLine(t)
  const locking = await connected(t, url, 'psql')
  await locking.query('begin; lock table work.verifications')
  await pool.query(`alter database ${new URL(url).pathname.slice(1)} set lock_timeout = '1s'`)
  const { code, err } = await run('ledger', 'verify')
  assert.equal(code, 1)
  assert.match(err, /verifications: the run is not recorded in work.verifications/)
})

test('a join of whole tables reads each of them once', async (t) => {
  const { pool } = await testDatabase(t)
  const scratch = await openScratch(pool, newId('vrf'))
  t.after(() => scratch.close())
  const { client } = await scratch.session()
  for (const name of ['some', 'others'])
    await client.query(
      `create table ${scratch.schema}.${name} as select n as id from generate_series(1, 5000) n`,
    )
  const plan = async (): Promise<string> => {
    const join = `explain select from ${scratch.schema}.some join ${scratch.schema}.others using (id)`
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(join)
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
  assert.match(await plan(), /Nested Loop/)
  await planForWholeTables(client, scratch.schema)
  assert.match(await plan(), /Hash Join/)
  assert.doesNotMatch(await plan(), /Nested Loop/)
})

test("the service's role cannot read or change what a verification computes with the auditor's role", async (t) => {
  const users = await databaseUsers(t)
  const { pool, url } = await testDatabase(t)
  await migrate(pool, allMigrations, { service: users.service, auditor: users.auditor })
  const [insider, auditorPool] = [users.service, users.auditor].map((user) => {
    const opened = createPool({ url: users.as(url, user), applicationName: 'farebox-test' })
    atEnd(t, () => opened.end())
    return opened
  }) as [pg.Pool, pg.Pool]
  const memory = createMemoryLog()
  await appendEach(memory, await everyKind())
  // Code of the service in its own tables runs with the rights of the reader.
  await insider.query(`
    create schema evil;
    create table evil.readers (name text primary key);
    grant usage on schema evil to public; grant insert on evil.readers to public;
    create function evil.note() returns boolean language plpgsql as $$ begin
      insert into evil.readers values (current_user) on conflict do nothing; return true;
    end $$;
    insert into traffic.metered_hours values ('pln_some', '2026-01-01T00:00:00Z', 1)`)
  const { rows: owned } = await insider.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
      where relkind in ('r', 'p') and pg_get_userbyid(relowner) = current_user and relnamespace <> 'evil'::regnamespace`,
  )
  assert.ok(owned.some(({ name }) => name === 'traffic.metered_hours'))
  for (const { name } of owned)
    await insider.query(`
      alter table ${name} enable row level security; alter table ${name} force row level security;
      create policy note on ${name} using (evil.note())`)
  const codes = new Set<string>()
  const attack = async (): Promise<void> => {
    const { rows } = await pool.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname like 'verify\\_%'`,
    )
    for (const { name } of rows)
      for (const sql of [`table ${name}`, `delete from ${name}`, `drop table ${name}`])
        codes.add(
          await insider.query(sql).then(
            () => `${sql} was done`,
            ({ code }) => code,
          ),
        )
  }
  const log = {
    ...memory,
    readAll: async (after: number, limit: number) => {
      await attack()
      return memory.readAll(after, limit)
    },
  }
  await verifyLog(
    { pool: insider, auditorPool, log, groups, logInPostgres: false },
    { runId: newId('vrf'), publicKey: testKey().publicKey, exported: null },
  )
  assert.deepEqual([...codes], ['42501'])
  assert.deepEqual((await insider.query('table evil.readers')).rows, [{ name: users.service }])

  // A verification of the service, such as one in the console, leaves the remains of one of the auditor.
  await auditorPool.query('create schema verify_killed')
  const scratches = [await openScratch(insider, newId('vrf')), await openScratch(auditorPool, newId('vrf'))]
  for (const scratch of scratches) await scratch.close()
  assert.deepEqual(
    scratches.map(({ problems }) => problems),
    [[], []],
  )
  assert.deepEqual(await leftSchemas(pool), [])
})
