import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { readDemoFile } from '../../src/app/demo/demo-file.ts'
import { dropOldRecords, readRequests } from '../../src/features/plans/traffic-records.ts'
import { createMeteringHour } from '../../src/gateway/admit/budgets.ts'
import { createRequestRecords } from '../../src/gateway/admit/record-requests.ts'
import { readDataUser } from '../../src/platform/postgres/data-lock.ts'
import { startEmbeddedPostgres } from '../../src/platform/postgres/embedded.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { call, dataDirectory, farebox, runToEnd, startFarebox } from '../support/farebox.ts'
import { emptyDatabase, testDatabase, twoUsers } from '../support/postgres.ts'

const settings = async (t: TestContext) => ({
  FAREBOX_DATA: await dataDirectory(t),
  FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
  FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
})

/** Actions that the serving role must be refused. */
const refused: Readonly<Record<string, string>> = {
  'change an event': `update log.events set data = '{}' where position = 1`,
  'remove an event': 'delete from log.events where position = 1',
  'empty the log': 'truncate log.events',
  'move the head': 'update log.head set last_position = 0',
  'set the positions': `select setval('log.positions', 1)`,
  'drop a trigger': 'drop trigger append_only on log.events',
  'switch a trigger off': 'alter table log.events disable trigger append_only',
  'switch all triggers off': 'set session_replication_role = replica',
  'drop a key': 'alter table log.events drop constraint events_pkey',
  'make an index': 'create index on log.events (type)',
  'drop the log': 'drop table log.events',
  'replace a function': `create or replace function log.refuse_change() returns trigger language plpgsql as 'begin return null; end'`,
  'make a function': `create function log.more() returns int language sql as 'select 1'`,
  // Postgres only warns of a grant that it does not make.
  'grant itself a right': `grant update on log.events to current_user; update log.events set data = '{}'`,
  'take the ownership': 'alter table log.events owner to current_user',
  'change what landed': 'update public.farebox_migration set checksum = name',
  'change a digest': `update work.event_digests set digests = ''`,
  'remove a verification': 'delete from work.verifications',
  'empty the verifications': 'truncate work.verifications',
  'change a table of the vault': 'alter table vault.accounts add column more text',
}

const refusals = async (pool: ReturnType<typeof createPool>): Promise<Readonly<Record<string, unknown>>> => {
  const codes: Record<string, unknown> = {}
  for (const [what, sql] of Object.entries(refused))
    codes[what] = await pool.query(sql).then(
      () => 'it was done',
      ({ code, message }) => (code === '42501' ? 'refused' : message),
    )
  return codes
}

const allRefused = Object.fromEntries(Object.keys(refused).map((what) => [what, 'refused']))

test('an owner who is not a superuser can migrate, and the serving role can append to the log but not change it', async (t) => {
  const users = await twoUsers(t)
  const { url } = await emptyDatabase(t)
  const admin = createPool({ url, applicationName: 'farebox-test' })
  await admin.query(`alter database ${new URL(url).pathname.slice(1)} owner to ${users.owner}`)
  await admin.end()
  const alone = { ...(await settings(t)), DATABASE_URL: users.as(url, users.service) }
  const env = { ...alone, DATABASE_OWNER_URL: users.as(url, users.owner) }

  const early = await runToEnd(t, alone)
  assert.equal(early.code, 1)
  assert.match(early.err, /set DATABASE_OWNER_URL/)

  const server = await startFarebox(t, env)
  const { buyer } = (await readDemoFile(env.FAREBOX_DATA))!
  const placed = await call(`${server.baseUrl}/api/v1/orders`, buyer.key, {
    body: { product_id: 'residential-premium', quantity: 5 },
  })
  assert.equal(placed.status, 201)
  await server.stop()

  // Commands need no owner once the database was migrated.
  for (const command of [
    ['ledger', 'seal'],
    ['ledger', 'verify'],
  ]) {
    const { code, err } = await farebox(t, command, alone)
    assert.equal(code, 0, `${command.join(' ')}: ${err}`)
  }

  const pool = createPool({ url: alone.DATABASE_URL, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  assert.deepEqual(await refusals(pool), allRefused)
  await assert.rejects(
    pool.query(`select log.begin_batch('{}', '{}', '{}', -1)`),
    ({ code }) => code === '22023',
    'the head is never taken back',
  )

  // The records of requests: the serving role writes them, and drops old days.
  const day = Date.parse('2020-01-02T03:00:00Z')
  const meteringHour = createMeteringHour(() => day)
  const records = createRequestRecords({
    pool,
    clock: () => day,
    worker: 'roles-test',
    hosts: 'full',
    meteringHour,
  })
  records.add({
    planId: 'pln_roles',
    hour: meteringHour.current(),
    requestId: 'req_roles',
    protocol: 'connect',
    line: null,
    host: 'example.com',
    port: 443,
    country: null,
    up: 1,
    down: 2,
    durationMs: 3,
    reason: null,
  })
  meteringHour.batchTaken()
  meteringHour.batchReported()
  await records.flush()
  const request = { after: null, limit: 10 }
  assert.equal((await readRequests(pool, 'pln_roles', {}, request)).length, 1)
  await dropOldRecords(pool, Date.now(), 7)
  assert.deepEqual(await readRequests(pool, 'pln_roles', {}, request), [])
})

test('a database with one role is migrated to two, and excess rights of the service are reported', async (t) => {
  const users = await twoUsers(t)
  const { url, pool: owners } = await testDatabase(t)
  const env = { ...(await settings(t)), FAREBOX_DEMO: 'off' }
  const one = await farebox(t, ['accounts', 'create', '--email', 'a@example.com'], {
    ...env,
    DATABASE_URL: url,
  })
  assert.equal(one.code, 0, one.err)

  const alone = { ...env, DATABASE_URL: users.as(url, users.service) }
  const both = { ...alone, DATABASE_OWNER_URL: url }
  const server = await startFarebox(t, both)
  assert.equal((await fetch(`${server.baseUrl}/readyz`)).status, 200)
  await server.stop()
  const rebuilt = await farebox(t, ['projections', 'rebuild', 'all'], alone)
  assert.equal(rebuilt.code, 0, rebuilt.err)
  const pool = createPool({ url: alone.DATABASE_URL, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  assert.deepEqual(await refusals(pool), allRefused)

  await owners.query(`grant update on log.head to ${users.service}`)
  const { code, err } = await farebox(t, ['ledger', 'verify'], alone)
  assert.equal(code, 1)
  assert.deepEqual(err.match(/DIFFERENT .*/g), [
    'DIFFERENT guards: role <service>: expected none, found "may change the row of log.head"',
    'DIFFERENT guards: table log.head, rights of <service>: expected "SELECT", found "SELECT, UPDATE"',
  ])
})

test('the data folder of a version with one role works with two, without any setting', async (t) => {
  const env = { ...(await settings(t)), FAREBOX_DEMO: 'off' }
  const before = await startEmbeddedPostgres({ dataDir: env.FAREBOX_DATA })
  const made = await startFarebox(t, { ...env, DATABASE_URL: before.ownerUrl })
  await made.stop()
  const old = createPool({ url: before.ownerUrl, applicationName: 'farebox-test' })
  await old.query('create schema verify_left; create table verify_left.rows as select 1 as n')
  await old.end()
  await before.stop()

  await startFarebox(t, env)
  const verified = await farebox(t, ['ledger', 'verify'], env)
  assert.equal(verified.code, 0, verified.err)
  const { url } = (await readDataUser(env.FAREBOX_DATA))!
  const pool = createPool({ url: url!, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  assert.deepEqual(await refusals(pool), allRefused)
})

test('an owner of another database fails the start', async (t) => {
  const [{ url }, other] = [await testDatabase(t), await emptyDatabase(t)]
  const { code, err } = await runToEnd(t, {
    ...(await settings(t)),
    DATABASE_URL: url,
    DATABASE_OWNER_URL: other.url,
  })
  assert.equal(code, 1)
  assert.match(err, /DATABASE_OWNER_URL and DATABASE_URL are two databases/)
})
