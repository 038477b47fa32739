import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { dropOldRecords, readRequests } from '../../src/features/plans/traffic-records.ts'
import { createMeteringHour } from '../../src/gateway/admit/budgets.ts'
import { createRequestRecords } from '../../src/gateway/admit/record-requests.ts'
import { createReporter } from '../../src/gateway/admit/reporter.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { dataDirectory } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { databaseUsers, emptyDatabase, testDatabase } from '../support/postgres.ts'
import { seededDatabase } from '../support/seeded.ts'
import { testApp } from '../support/test-app.ts'
import { allRefused, refusals } from './serving-role.ts'

test('an owner who is not a superuser can migrate, and the serving role can append to the log but not change it', async (t) => {
  const users = await databaseUsers(t)
  const { url } = await emptyDatabase(t)
  const admin = createPool({ url, applicationName: 'farebox-test' })
  await admin.query(`alter database ${new URL(url).pathname.slice(1)} owner to ${users.owner}`)
  await admin.end()
  const alone = { DATABASE_URL: users.as(url, users.service) }
  await assert.rejects(testApp(t, { own: true, settings: alone }), /set DATABASE_OWNER_URL/)

  const all = {
    ...alone,
    DATABASE_AUDITOR_URL: users.as(url, users.auditor),
    DATABASE_OWNER_URL: users.as(url, users.owner),
    FAREBOX_DATA: await dataDirectory(t),
  }
  const { buyer, env, close } = await testApp(t, { own: true, settings: all })
  const placed = await buyer.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 5 })
  assert.equal(placed.status, 201)
  await close()

  // Commands need no owner once the database was migrated.
  const { DATABASE_OWNER_URL: _, ...withoutOwner } = env
  for (const command of [
    ['ledger', 'breaches'],
    ['ledger', 'seal'],
    ['ledger', 'verify'],
  ]) {
    const { code, err } = await operate(command, withoutOwner)
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
    reporter: createReporter({ name: 'roles-test', onRefused: assert.fail }),
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
  const users = await databaseUsers(t)
  const one = await seededDatabase(t, await dataDirectory(t))
  const alone = { ...one, DATABASE_URL: users.as(one.DATABASE_URL, users.service) }
  const both = { ...alone, DATABASE_OWNER_URL: one.DATABASE_URL }
  const { close } = await testApp(t, { own: true, settings: both })
  await close()
  const rebuilt = await operate(['projections', 'rebuild', 'all'], alone)
  assert.equal(rebuilt.code, 0, rebuilt.err)

  // A function of the service in a schema with the name of the owner is never called with the owner's rights.
  const trap = createPool({ url: alone.DATABASE_URL, applicationName: 'farebox-test' })
  t.after(() => trap.end())
  const schema = pg.escapeIdentifier(decodeURIComponent(new URL(one.DATABASE_URL).username))
  await trap.query(
    `create schema ${schema}; create table ${schema}.caller (name text);
     create function ${schema}.has_database_privilege(oid, name, text) returns boolean language sql
       as $$ insert into ${schema}.caller values (current_user); select false $$`,
  )
  const again = await testApp(t, { own: true, settings: both })
  await again.close()
  assert.deepEqual((await trap.query(`select name from ${schema}.caller`)).rows, [])
  await trap.query(`drop schema ${schema} cascade`)
  const pool = createPool({ url: alone.DATABASE_URL, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  assert.deepEqual(await refusals(pool), allRefused)

  const owner = createPool({ url: one.DATABASE_URL, applicationName: 'farebox-test' })
  await owner.query(`grant update on log.head to ${users.service}`)
  await owner.end()
  const { code, err } = await operate(['ledger', 'verify'], alone)
  assert.equal(code, 1)
  assert.deepEqual(err.match(/DIFFERENT .*/g), [
    'DIFFERENT guards: role <service>: expected none, found "may change the row of log.head"',
    'DIFFERENT guards: table log.head, rights of <service>: expected "SELECT", found "SELECT, UPDATE"',
  ])
})

test('an owner of another database fails the start', async (t) => {
  const [{ url }, other] = [await testDatabase(t), await emptyDatabase(t)]
  const settings = { DATABASE_URL: url, DATABASE_OWNER_URL: other.url }
  await assert.rejects(
    testApp(t, { own: true, settings }),
    /DATABASE_OWNER_URL and DATABASE_URL are two databases/,
  )
})
