import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { allMigrations } from '../../src/app/migrations.ts'
import { invariantGroup } from '../../src/audit/invariants/invariants.ts'
import { migrate } from '../../src/platform/postgres/migrate.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { dataDirectory } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { databaseUsers } from '../support/postgres.ts'
import { seededDatabase } from '../support/seeded.ts'

/** The database of a service with two roles. `admin` may do everything; commands get the address of the owner. */
const twoRoles = async (t: TestContext) => {
  const users = await databaseUsers(t)
  const one = await seededDatabase(t, await dataDirectory(t))
  const env = {
    ...one,
    DATABASE_URL: users.as(one.DATABASE_URL, users.service),
    DATABASE_OWNER_URL: one.DATABASE_URL,
  }
  const admin = createPool({ url: one.DATABASE_URL, applicationName: 'farebox-test' })
  t.after(() => admin.end())
  await migrate(admin, allMigrations, { service: users.service })
  return { env, admin, service: users.service }
}

const findingsOf = async (env: NodeJS.ProcessEnv): Promise<readonly string[]> => {
  const { code, out, err } = await operate(['ledger', 'verify', '--json'], env)
  assert.equal(code, 1, err)
  return JSON.parse(out).result.findings.map((finding: Record<string, unknown>) =>
    [
      finding.check,
      finding.group,
      finding.table,
      finding.object,
      finding.fact,
      finding.problem ?? finding.found,
    ]
      .filter(Boolean)
      .join(': '),
  )
}

const ownerOf = async (pool: pg.Pool, table: string): Promise<string> =>
  (
    await pool.query('select pg_get_userbyid(relowner) as name from pg_class where oid = $1::regclass', [
      table,
    ])
  ).rows[0].name

const assertFound = (findings: readonly string[], ...expected: readonly RegExp[]): void => {
  for (const one of expected)
    assert.ok(
      findings.some((finding) => one.test(finding)),
      `${one} is not among\n${findings.join('\n')}`,
    )
}

test('verify reports changed owners, views, children and foreign tables, and changes nothing', async (t) => {
  const { env, admin, service } = await twoRoles(t)
  await admin.query(`
    alter table read.balances owner to pg_monitor;
    revoke insert on work.messages from ${service};
    alter table log.events rename to other_events;
    create view log.events as select * from log.other_events;
    create table public.child () inherits (work.unsigned_events);
    alter schema vault rename to other_vault;
    create foreign data wrapper elsewhere;
    create server elsewhere foreign data wrapper elsewhere;
    create foreign table read.strange (id text) server elsewhere`)
  const findings = await findingsOf(env)
  assertFound(
    findings,
    /^guards: table read\.balances: owner pg_monitor/,
    /^guards: table work\.messages: rights of <service>: DELETE, SELECT, TRUNCATE, UPDATE$/,
    /^guards: view log\.events: /,
    /^guards: table work\.unsigned_events: rows of: public\.child$/,
    /^guards: schema vault$/,
    /^vault: the check of vault\.api_keys could not run: /,
    /^guards: relation of kind f read\.strange: form no table/,
  )
  assert.equal(await ownerOf(admin, 'read.balances'), 'pg_monitor')
})

test('verify reports renamed relations, and every other check still runs', async (t) => {
  const { env, admin } = await twoRoles(t)
  await admin.query(`
    alter table log.head rename to other_head;
    alter table public.farebox_migration rename to other_migration;
    alter table work.webhook_deliveries rename to other_deliveries;
    alter table work.event_digests rename to other_digests;
    alter table vault.staff rename to other_staff;
    update vault.accounts set email = 'x' || email where email is not null;
    insert into read.violations (position, event_id, event_type, stream, rule, problem)
      select position, id::text, type, stream, 'test', 'a test says so' from log.events limit 1;
    update read.audit_wallets set available = available + 1;
    update read.balances set available_micros = available_micros + 1`)
  const findings = await findingsOf(env)
  assertFound(
    findings,
    /^guards: table log\.head$/,
    /^guards: table public\.farebox_migration$/,
    /^append-only: the check could not run: /,
    /^seals: the check of the stored digests could not run: /,
    /^invariants: the check of queued work could not run: /,
    /^vault: the check of vault\.staff could not run: /,
    /^vault: vault\.accounts holds another e-mail or salt /,
    /^projections: hot: balances/,
    new RegExp(`^projections: ${invariantGroup.name}: violations`),
    new RegExp(`^projections: ${invariantGroup.name}: audit_wallets`),
  )
})
