import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { allMigrations } from '../../../src/app/migrations.ts'
import { unreadableTable } from '../../../src/platform/postgres/errors.ts'
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { openSession } from '../../../src/platform/postgres/postgres-session.ts'
import { ProjectionsRefused, readStoppedModels } from '../../../src/platform/projections/checkpoint.ts'
import type { ReadModel, ReadModelGroup } from '../../../src/platform/projections/read-model.ts'
import { rebuild } from '../../../src/platform/projections/rebuild.ts'
import { atEnd } from '../../support/cleanup.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { databaseUsers, testDatabase } from '../../support/postgres.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'
import { caughtUp, createEngine, decode, owns, rowsOf, startEngine, stateOf } from './engine.ts'
import { appendFacts, appendMany, both, entries, type Fact, first, second, tallies } from './tally.ts'

const add = (name: string, amount: number): Fact => ({ kind: 'add', name, amount })

const sumOf = async (pool: import('pg').Pool, name: string): Promise<number | undefined> => {
  const { rows } = await pool.query<{ sum: number }>('select sum from read.tallies where name = $1', [name])
  return rows[0]?.sum
}

test('events appear in the tables, and the checkpoint is at the last one', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  await appendFacts(log, [add('a', 1), add('b', 2), add('a', 3), { kind: 'drop', name: 'b' }])
  const engine = await startEngine(t, pool, log, [both])
  await caughtUp(engine, log)
  assert.equal(await sumOf(pool, 'a'), 4)
  assert.equal(await sumOf(pool, 'b'), undefined)
  const last = await appendFacts(log, [add('b', 5), { kind: 'move', from: 'a', to: 'b' }])
  await caughtUp(engine, log)
  assert.equal(await sumOf(pool, 'b'), 9)
  assert.equal(await sumOf(pool, 'a'), 0)
  const { rows } = await pool.query(`select position from engine.checkpoints where name = 'both'`)
  assert.deepEqual(rows, [{ position: last }])
})

test('a batch whose rows the database refuses is reduced to the faulty event, and stops there', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const tooLarge: ReadModelGroup = {
    name: 'first',
    models: [
      {
        ...tallies,
        apply: (event, rows) => {
          const fact = event.data as Fact
          if (fact.kind !== 'add') return
          rows.put(tallies.tables[0]!, {
            name: fact.name,
            sum: fact.amount,
            facts: fact.amount,
            trail: [],
            note: null,
            at: event.metadata.recordedAt,
          })
        },
      },
    ],
  }
  const engine = await startEngine(t, pool, log, [tooLarge])
  await owns(engine, 'first')
  await engine.pause()
  await appendMany(log, [add('a', 1), add('b', 2), add('c', 2 ** 40), add('d', 4)], 1)
  engine.resume()
  await until(() => stateOf(engine, 'first') === 'poisoned')
  assert.equal(await sumOf(pool, 'b'), 2)
  assert.equal(await sumOf(pool, 'c'), undefined)
  assert.equal(await sumOf(pool, 'd'), undefined)
  assert.match(engine.health()[0]?.error ?? '', /position 3.*out of range/)
})

test('a row that Postgres refuses stops only the model of its table', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  // Postgres has no index row of this length; the engine does not check it.
  const longKey = randomBytes(20_000).toString('base64')
  const engine = await startEngine(t, pool, log, [both])
  await owns(engine, 'both')
  await engine.pause()
  await appendMany(log, [add('a', 1), add(longKey, 2), add('b', 4)], 1)
  engine.resume()
  await caughtUp(engine, log)
  const [stopped] = await readStoppedModels(pool)
  assert.partialDeepStrictEqual(stopped, { model: 'tallies', position: 2 })
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 3)
})

test('a row that Postgres refuses stops only its model also while the tables are filled', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  await appendMany(log, [add('a', 1), add(randomBytes(20_000).toString('base64'), 2), add('b', 4)], 1)
  const engine = await startEngine(t, pool, log, [both])
  await caughtUp(engine, log)
  const [stopped] = await readStoppedModels(pool)
  assert.partialDeepStrictEqual(stopped, { model: 'tallies', position: 3 })
  assert.match(
    stopped?.error ?? '',
    /one of the events up to it makes a row that Postgres rejects: index row/,
  )
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 3)
})

test('an event that a model cannot apply stops its group before it, and no other group', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [first, second])
  await owns(engine, 'first')
  await appendFacts(log, [add('a', 1), add('a', 2), { kind: 'poison' }, add('a', 4)])
  await caughtUp(engine, log, ['second'])
  await until(() => stateOf(engine, 'first') === 'poisoned')
  assert.equal(await sumOf(pool, 'a'), 3)
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 3)
  assert.equal(engine.progress.position('first'), 2)
  assert.match(engine.health()[0]?.error ?? '', /tallies cannot take Fact .*position 3.*cannot be applied/)
  assert.equal(await engine.caughtUp(50), false)
  const [lag] = await engine.lag()
  assert.equal(lag?.positions, 2)
})

/** A model of this name that throws on poison events until `isRepaired`. */
const withFault = (model: ReadModel, isRepaired: () => boolean): ReadModel => ({
  ...model,
  apply: (event, rows) => {
    if ((event.data as Fact).kind !== 'poison') model.apply(event, rows)
    else if (!isRepaired()) throw new Error('this fact cannot be applied')
  },
})

const stoppedModels = async (pool: import('pg').Pool): Promise<readonly string[]> =>
  (await readStoppedModels(pool)).map(({ model }) => model)

test('a model is stopped at once and its reads fail, also while another session reads its tables', async (t) => {
  const users = await databaseUsers(t)
  const { url, pool } = await testDatabase(t)
  await migrate(pool, allMigrations, { service: users.service })
  const service = createPool({ url: users.as(url, users.service), applicationName: 'service' })
  atEnd(t, () => service.end())
  const log = createMemoryLog()
  const engine = await startEngine(t, service, log, [both])
  await owns(engine, 'both')
  await appendFacts(log, [add('a', 1)])
  await caughtUp(engine, log)
  const backup = await pool.connect()
  await backup.query('begin')
  await backup.query('lock table read.tallies in access share mode')
  await appendFacts(log, [{ kind: 'poison' }, add('a', 4)])
  await caughtUp(engine, log)
  assert.deepEqual(await stoppedModels(pool), ['tallies'])
  assert.equal((await rowsOf(service, 'entries', 'position')).length, 2)
  await assert.rejects(sumOf(service, 'a'), (error) => unreadableTable(error) === 'tallies')
  await backup.query('rollback')
  backup.release()
  await until(
    () =>
      sumOf(pool, 'a').then(
        () => false,
        ({ code }) => code === '42P01',
      ),
    { what: 'the dropped table' },
  )
})

test('a model that cannot apply an event is stopped alone: its tables are gone and its group continues', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await owns(engine, 'both')
  await appendFacts(log, [add('a', 1), { kind: 'poison' }, add('a', 4)])
  await caughtUp(engine, log)
  assert.equal(stateOf(engine, 'both'), 'owner')
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 2)
  await until(
    () =>
      sumOf(pool, 'a').then(
        () => false,
        ({ code }) => code === '42P01',
      ),
    { what: 'no table' },
  )
  const [stopped] = await readStoppedModels(pool)
  assert.partialDeepStrictEqual(stopped, { group: 'both', model: 'tallies', position: 2 })
  assert.match(stopped?.error ?? '', /tallies cannot take Fact .*position 2.*cannot be applied/)
  await appendFacts(log, [add('b', 1)])
  await caughtUp(engine, log)
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 3)
  const versionOf = (table: string) => engine.progress.watch('both', [table]).version()
  assert.equal(versionOf('tallies'), null)
  assert.notEqual(versionOf('entries'), null)
})

test('a version that can apply the event fills the tables of the stopped model beside the others', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await appendFacts(log, [add('a', 1), { kind: 'poison' }, add('a', 4)])
  await until(async () => (await stoppedModels(pool)).includes('tallies'))
  await engine.stop()
  const repaired = { ...both, models: [withFault(tallies, () => true), entries] }
  const next = await startEngine(t, pool, log, [repaired])
  await caughtUp(next, log)
  await until(async () => (await stoppedModels(pool)).length === 0)
  assert.equal(await sumOf(pool, 'a'), 5)
  await appendFacts(log, [add('a', 2)])
  await caughtUp(next, log)
  assert.equal(await sumOf(pool, 'a'), 7)
  const [result] = await rebuild({ pool, log, decode, groups: [repaired] }, 'all', { compareOnly: true })
  assert.deepEqual(result?.differences, [])
})

for (const group of [both, first])
  test(`a model of the group ${group.name} that throws once catches up by itself`, async (t) => {
    const { pool } = await testDatabase(t)
    const log = createMemoryLog()
    let throwCount = 0
    const throwsOnce = withFault(tallies, () => {
      throwCount += 1
      return throwCount > 1
    })
    const models = group.models.map((model) => (model === tallies ? throwsOnce : model))
    const engine = await startEngine(t, pool, log, [{ ...group, models }])
    await owns(engine, group.name)
    await appendFacts(log, [add('a', 1), { kind: 'poison' }, add('a', 4)])
    await until(async () => throwCount > 1 && (await sumOf(pool, 'a').catch(() => null)) === 5)
    await owns(engine, group.name)
    assert.deepEqual(await stoppedModels(pool), [])
  })

test('two models of a group that fail at different events are stopped one after the other', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const failing: ReadModel = {
    ...entries,
    apply: (event) => {
      if (event.position === 3) throw new Error('not this event')
    },
  }
  const engine = await startEngine(t, pool, log, [{ ...both, models: [tallies, failing] }])
  await appendFacts(log, [add('a', 1), { kind: 'poison' }, add('a', 4), add('a', 5)])
  await caughtUp(engine, log)
  const stopped = await readStoppedModels(pool)
  assert.deepEqual(
    stopped.map(({ model, position }) => [model, position]),
    [
      ['entries', 3],
      ['tallies', 2],
    ],
  )
})

test('a new version with a model that fails on an old event stops that model and fills the others', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  await appendFacts(log, [add('a', 1), { kind: 'poison' }, add('a', 4)])
  const engine = await startEngine(t, pool, log, [both])
  await caughtUp(engine, log)
  assert.deepEqual(await stoppedModels(pool), ['tallies'])
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 2)
})

test('a new version with a model that fails waits, and names the remedy, while the old version folds', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const group = { ...both, models: [withFault(tallies, () => true), entries] }
  const old = await startEngine(t, pool, log, [group])
  await owns(old, 'both')
  await appendFacts(log, [add('a', 1), { kind: 'poison' }])
  await caughtUp(old, log)
  const failing = { ...withFault(tallies, () => false), version: tallies.version + 1 }
  const next = await startEngine(t, pool, log, [{ ...both, models: [failing, entries] }])
  await until(() => stateOf(next, 'both') === 'poisoned')
  assert.match(
    next.health()[0]?.error ?? '',
    /cannot be applied; another process still folds this group: end it, and only the model tallies stops$/,
  )
  assert.equal(await sumOf(pool, 'a'), 1)
  await old.stop()
  await owns(next, 'both')
  assert.deepEqual(await stoppedModels(pool), ['tallies'])
})

test('an event that cannot be decoded stops later events, not earlier ones', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [first])
  await owns(engine, 'first')
  await appendFacts(log, [add('a', 1)])
  await log.append('order-broken' as never, 'noStream', [
    { id: randomUUID(), type: 'Fact', data: '{', metadata: '{}' },
  ])
  await until(() => stateOf(engine, 'first') === 'poisoned')
  assert.equal(await sumOf(pool, 'a'), 1)
  assert.match(engine.health()[0]?.error ?? '', /cannot be decoded/)
})

test('killed connections lose and repeat nothing', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both], { maxBatch: 7 })
  await owns(engine, 'both')
  for (let round = 0; round < 12; round += 1) {
    await appendMany(
      log,
      Array.from({ length: 100 }, (_, index) => add(`n${index % 5}`, 1)),
    )
    // The one that a former round ended may not have its successor yet.
    await until(
      async () => {
        const { rowCount } = await pool.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and application_name = 'farebox projection both'`,
        )
        return rowCount === 1
      },
      { what: `a session to end in round ${round}` },
    )
    await until(() => engine.progress.position('both') > 100 * round, { what: `round ${round}` })
  }
  await caughtUp(engine, log)
  for (let name = 0; name < 5; name += 1) assert.equal(await sumOf(pool, `n${name}`), 240)
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 1200)
})

test('a batch that a full disk refuses is retried with growing pauses, and lands when there is space', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await owns(engine, 'both')
  // A sequence keeps its count when the transaction is rolled back.
  await pool.query(`create sequence public.tries;
    create function public.no_room() returns trigger language plpgsql as $$
      begin perform nextval('public.tries'); raise exception using errcode = '53100', message = 'no room'; end $$;
    create trigger no_room before insert on read.tallies for each statement execute function public.no_room()`)
  const begunMs = performance.now()
  await appendFacts(log, [add('a', 5)])
  await until(async () => (await pool.query('select from public.tries where last_value >= 6')).rowCount === 1)
  // The pauses between six tries: 100, 200, 400, 800 and 1,600 ms.
  assert.ok(performance.now() - begunMs > 3_000)
  await pool.query('drop trigger no_room on read.tallies')
  await caughtUp(engine, log)
  assert.equal(await sumOf(pool, 'a'), 5)
})

test('one of two processes owns a group; when it stops, the other continues within seconds', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engines = [await startEngine(t, pool, log, [both]), await startEngine(t, pool, log, [both])]
  const owner = await until(() => engines.find((engine) => stateOf(engine, 'both') === 'owner'))
  const other = engines.find((engine) => engine !== owner)!
  await appendFacts(log, [add('a', 1)])
  await Promise.all(engines.map((engine) => caughtUp(engine, log)))
  await until(() => stateOf(other, 'both') === 'standby')
  await owner.stop()
  await appendFacts(log, [add('a', 2)])
  const startedMs = performance.now()
  await owns(other, 'both')
  await caughtUp(other, log)
  assert.ok(performance.now() - startedMs < 20_000)
  assert.equal(await sumOf(pool, 'a'), 3)
})

test('an owner without answers from Postgres gives up its group: another continues, or it does itself later', async (t) => {
  const { pool, url } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const answerTimeoutMs = 1_000
  const cut = createPool({
    url: proxy.url,
    applicationName: 'farebox-test',
    connectTimeoutMs: 1_000,
    answerTimeoutMs,
  })
  t.after(() => cut.end())
  const log = createMemoryLog()
  const silenced = await startEngine(t, cut, log, [both], { answerTimeoutMs })
  await owns(silenced, 'both')
  proxy.mute()
  await appendFacts(log, [add('a', 1)])
  await until(() => stateOf(silenced, 'both') === 'unreachable')
  await proxy.accept()
  await caughtUp(silenced, log)
  const other = await startEngine(t, pool, log, [both])
  await until(() => stateOf(other, 'both') === 'standby')
  proxy.mute()
  await appendFacts(log, [add('a', 2)])
  await owns(other, 'both')
  await caughtUp(other, log)
  await proxy.accept()
  await until(() => stateOf(silenced, 'both') === 'standby')
  await appendFacts(log, [add('a', 4)])
  await Promise.all([silenced, other].map((engine) => caughtUp(engine, log)))
  assert.equal(await sumOf(pool, 'a'), 7)
})

test('a session closes even if Postgres is silent', async (t) => {
  const { url } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const pool = createPool({ url: proxy.url, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  const session = await openSession(pool, 'farebox test', 300)
  proxy.hang()
  await session.close()
})

test('an owner whose lock was lost to another process can no longer write', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await owns(engine, 'both')
  await appendFacts(log, [add('a', 1)])
  await caughtUp(engine, log)
  // As another owner does when it takes over: its own epoch, and its own batch.
  await pool.query(
    `update engine.checkpoints set epoch = epoch + 1, position = position + 1 where name = 'both'`,
  )
  await pool.query(`update read.tallies set sum = 100 where name = 'a'`)
  await appendFacts(log, [add('a', 1000), add('a', 7)])
  await caughtUp(engine, log)
  // The second event is skipped because of the checkpoint, and the row is the stored one, not the cached one.
  assert.equal(await sumOf(pool, 'a'), 107)
})

test('an owner whose tables were exchanged drops its cached rows', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await owns(engine, 'both')
  await appendFacts(log, [add('a', 1)])
  await caughtUp(engine, log)
  await pool.query(`with exchanged as (update engine.checkpoints set epoch = epoch + 1 where name = 'both')
    update read.tallies set sum = 100 where name = 'a'`)
  await appendFacts(log, [add('a', 7)])
  await caughtUp(engine, log)
  assert.equal(await sumOf(pool, 'a'), 107)
})

/** Adds a fact to the table of its name: two tables of the same columns. */
const sides = ['lefts', 'rights'].map(
  (name): ReadModel => ({
    name,
    version: 1,
    tables: [
      {
        name,
        columns: { position: { type: 'bigint' }, amount: { type: 'bigint' } },
        key: ['position'],
        indexes: [],
        appendOnly: true,
      },
    ],
    reads: () => [],
    apply(event, rows) {
      const fact = event.data as Fact
      if (fact.kind === 'add' && fact.name === name)
        rows.add(this.tables[0]!, { position: event.position, amount: fact.amount })
    },
  }),
)

test('an owner whose tables were exchanged continues in the right tables, in any order of models', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [{ name: 'sides', models: sides }])
  await owns(engine, 'sides')
  const oneByOne = async (...facts: readonly Fact[]): Promise<void> => {
    for (const fact of facts) {
      await appendFacts(log, [fact])
      await caughtUp(engine, log)
    }
  }
  await oneByOne(add('lefts', 1), add('rights', 2))
  await pool.query(`update engine.checkpoints set epoch = epoch + 1 where name = 'sides'`)
  await oneByOne(add('rights', 4), add('lefts', 3))
  const { rows } = await pool.query(`
    select (select array_agg(amount order by position) from read.lefts) as lefts,
           (select array_agg(amount order by position) from read.rights) as rights`)
  assert.deepEqual(rows, [{ lefts: [1, 3], rights: [2, 4] }])
})

test('events are folded as they arrive, and their rows are written at the end of the batch window', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  let folded = 0
  const counting: ReadModelGroup = {
    name: 'first',
    models: [
      {
        ...tallies,
        apply: (event, rows) => {
          folded = event.position
          tallies.apply(event, rows)
        },
      },
    ],
    batchWindowMs: 60_000,
  }
  const engine = await startEngine(t, pool, log, [counting])
  await owns(engine, 'first')
  await appendFacts(log, [add('a', 1)])
  await until(async () => (await sumOf(pool, 'a')) === 1, { what: 'the first event after a quiet time' })
  for (const amount of [10, 100, 1000]) {
    await appendFacts(log, [add('a', amount)])
    const head = await log.head()
    await until(() => folded === head, { what: `the fold of ${amount}` })
  }
  assert.equal(await sumOf(pool, 'a'), 1)
  assert.equal(await engine.progress.reached('first', await log.head(), 10_000), true)
  assert.equal(await sumOf(pool, 'a'), 1111)
})

test('while the runner is paused nothing is written, and afterwards everything', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await appendFacts(log, [add('a', 1)])
  await caughtUp(engine, log)
  await engine.pause()
  await appendFacts(log, [add('a', 2)])
  assert.equal(await engine.caughtUp(100), false)
  assert.equal(await sumOf(pool, 'a'), 1)
  engine.resume()
  await caughtUp(engine, log)
  assert.equal(await sumOf(pool, 'a'), 3)
})

test('tables of another log, or ahead of this one, are refused with what to do', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  await appendFacts(log, [add('a', 1)])
  const engine = await startEngine(t, pool, log, [both])
  await caughtUp(engine, log)
  await engine.stop()
  const isRefused = (pattern: RegExp) => (error: Error) => {
    assert.ok(error instanceof ProjectionsRefused)
    assert.match(error.message, pattern)
    assert.match(error.message, /projections rebuild all/)
    return true
  }
  await assert.rejects(
    createEngine(t, pool, createMemoryLog(), [both]).start(),
    isRefused(/folded from the log/),
  )
  const shorter = { ...log, head: async () => 0 }
  await assert.rejects(
    createEngine(t, pool, shorter, [both]).start(),
    isRefused(/are at position 1.*ends at 0/),
  )
})

test('batches end at the end of a command', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both], { maxBatch: 10 })
  await owns(engine, 'both')
  await engine.pause()
  await appendMany(
    log,
    Array.from({ length: 100 }, () => add('a', 1)),
    4,
  )
  const seen = new Set<number>()
  engine.resume()
  const head = await log.head()
  while (engine.progress.position('both') < head) {
    seen.add(engine.progress.position('both'))
    await new Promise(setImmediate)
  }
  assert.deepEqual(
    [...seen].filter((position) => position % 4 !== 0),
    [],
  )
})
