import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { describeHolder, isLocked, tryLock, unlock } from '../../../src/platform/postgres/locks.ts'
import { atEnd } from '../../support/cleanup.ts'
import { databaseUsers, emptyDatabase, testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'

for (const lock of ['test', { auditor: 'test' }])
  test(`one session has the lock ${JSON.stringify(lock)} until it ends`, async (t) => {
    const { url, pool } = await testDatabase(t)
    const open = async () => {
      const client = new pg.Client({ connectionString: url, application_name: 'farebox-test-lock' })
      await client.connect()
      atEnd(t, () => client.end())
      return client
    }
    const [first, second] = [await open(), await open()]
    assert.deepEqual(await Promise.all([tryLock(first, lock), tryLock(first, lock)]), [true, true])
    assert.equal(await tryLock(second, lock), false)
    assert.equal(await isLocked(pool, lock), true)
    assert.match(
      (await describeHolder(pool, lock)) ?? '',
      /^farebox-test-lock on 127\.0\.0\.1 \(backend \d+\)$/,
    )
    await first.end()
    await until(() => tryLock(second, lock), { what: 'the lock of an ended session' })
    await unlock(second, lock)
    assert.equal(await isLocked(pool, lock), false)

    const all = await Promise.all(Array.from({ length: 8 }, open))
    const taken = await Promise.all(all.map((client) => tryLock(client, lock)))
    assert.equal(taken.filter(Boolean).length, 1)
  })

test('a row of a lock that a copy of the database brought, or whose session has another start, is free', async (t) => {
  const { url, pool } = await testDatabase(t)
  const lock = { auditor: 'test' }
  const elsewhere = new pg.Client({ connectionString: (await emptyDatabase(t)).url })
  await elsewhere.connect()
  atEnd(t, () => elsewhere.end())
  const own = 'select pid, usesysid, backend_start::text from pg_stat_activity where pid = pg_backend_pid()'
  const { rows } = await elsewhere.query(own)
  const row = 'insert into engine.auditor_locks values ($1, $2, $3, $4)'
  await pool.query(row, [lock.auditor, rows[0].pid, rows[0].usesysid, rows[0].backend_start])
  assert.equal(await isLocked(pool, lock), false)
  const holder = new pg.Client({ connectionString: url })
  await holder.connect()
  atEnd(t, () => holder.end())
  assert.equal(await tryLock(holder, lock), true)
  await pool.query(`update engine.auditor_locks set started_at = started_at - interval '1 microsecond'`)
  assert.equal(await isLocked(pool, lock), false)
})

test("the service sees the auditor's lock, although Postgres hides the start of the session", async (t) => {
  const users = await databaseUsers(t)
  const { url, pool } = await testDatabase(t)
  await pool.query(
    `grant usage on schema engine to ${users.service}; grant select, insert, update on engine.auditor_locks to ${users.service}`,
  )
  const [auditor, service] = [users.auditor, users.service].map(
    (user) => new pg.Client({ connectionString: users.as(url, user) }),
  )
  for (const client of [auditor!, service!]) {
    await client.connect()
    atEnd(t, () => client.end())
  }
  const lock = { auditor: 'test' }
  assert.equal(await tryLock(auditor!, lock), true)
  assert.equal(await tryLock(service!, lock), false)
})
