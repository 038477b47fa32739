import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allMigrations } from '../../../src/app/migrations.ts'
import { LockHeld, type LockHolder } from '../../../src/platform/postgres/locks.ts'
import {
  MigrationRefused,
  type Migrations,
  migrate,
  requireMigrated,
} from '../../../src/platform/postgres/migrate.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'

const two: Migrations = {
  '0002_b': 'insert into public.a (n) values (2)',
  '0001_a': 'create table public.a (n integer); insert into public.a (n) values (1)',
}

const freshPool = async (t: import('node:test').TestContext) => {
  const { url } = await emptyDatabase(t)
  const pool = createPool({ url, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  return pool
}

test('migrations are applied once, in the order of their names', async (t) => {
  const pool = await freshPool(t)
  assert.deepEqual(await migrate(pool, two), ['0001_a', '0002_b'])
  assert.deepEqual(await migrate(pool, two), [])
  assert.deepEqual((await pool.query('select n from public.a order by n')).rows, [{ n: 1 }, { n: 2 }])
})

test('a command refuses an older or newer database and changes nothing', async (t) => {
  const pool = await freshPool(t)
  const one = { '0001_a': two['0001_a']! }
  await migrate(pool, one)
  await requireMigrated(pool, one)
  await assert.rejects(
    requireMigrated(pool, two),
    /^MigrationRefused: Start the service of this version .* lacks 0002_b/,
  )
  await assert.rejects(requireMigrated(pool, {}), /^MigrationRefused: .* newer than this version/)
  assert.deepEqual((await pool.query('select name from public.farebox_migration')).rows, [{ name: '0001_a' }])
})

test('several processes that start at once apply each migration once', async (t) => {
  const pool = await freshPool(t)
  const applied = await Promise.all(Array.from({ length: 6 }, () => migrate(pool, two)))
  assert.deepEqual(applied.flat().sort(), ['0001_a', '0002_b'])
})

test('a migration waits for another migrating process beyond every statement limit, and names it', async (t) => {
  const { url } = await emptyDatabase(t)
  const poolNamed = (applicationName: string, statementTimeoutMs: number) => {
    const pool = createPool({ url, applicationName, statementTimeoutMs })
    t.after(() => pool.end())
    return pool
  }
  const long = poolNamed('farebox-long', 30_000)
  const slow: Migrations = { '0001_a': 'create table public.a (n integer); select pg_sleep(2)' }
  const first = migrate(long, slow)
  const impatient = poolNamed('farebox-next', 200)
  await until(async () => {
    const { rowCount } = await impatient.query("select from pg_stat_activity where wait_event = 'PgSleep'")
    return rowCount === 1
  })
  const held = await migrate(impatient, slow, { withinMs: 300 }).catch((error: Error) => error)
  assert.ok(held instanceof LockHeld)
  assert.match(
    held.message,
    /^farebox-long on .* \(backend \d+\) is migrating the database; try again when it is done$/,
  )
  const holders: (string | undefined)[] = []
  const onWait = (holder: LockHolder | null) => void holders.push(holder?.application)
  assert.deepEqual(await migrate(impatient, slow, { onWait }), [])
  assert.deepEqual(holders, ['farebox-long'])
  assert.deepEqual(await first, ['0001_a'])
})

test('a failed migration leaves no trace and keeps the earlier ones', async (t) => {
  const pool = await freshPool(t)
  const broken = { ...two, '0003_c': 'create table public.c (n integer); select 1 / 0' }
  await assert.rejects(migrate(pool, broken), /migration 0003_c failed: division by zero/)
  assert.equal((await pool.query("select to_regclass('c') as c")).rows[0].c, null)
  assert.deepEqual(await migrate(pool, two), [])
})

test('a database newer than the code is refused with the name of the unknown migration', async (t) => {
  const pool = await freshPool(t)
  await migrate(pool, { ...two, '0900_future': 'select 1' })
  await assert.rejects(migrate(pool, two), (error) => {
    assert(error instanceof MigrationRefused)
    assert.match(
      error.message,
      /^Start the version .*newer than this version of Farebox: it has 0900_future$/,
    )
    return true
  })
})

test('a migration edited after its release is refused and no other is applied', async (t) => {
  const pool = await freshPool(t)
  await migrate(pool, two)
  const edited = {
    ...two,
    '0002_b': 'insert into public.a (n) values (3)',
    '0003_c': 'create table public.c ()',
  }
  await assert.rejects(migrate(pool, edited), /migration 0002_b was edited after it landed/)
  assert.equal((await pool.query("select to_regclass('c') as c")).rows[0].c, null)
})

test('the migrations of all features apply to an empty database', async (t) => {
  const pool = await freshPool(t)
  assert.deepEqual(await migrate(pool, allMigrations), Object.keys(allMigrations).sort())
})
