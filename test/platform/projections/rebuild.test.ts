import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import type { ReadModel, ReadModelGroup } from '../../../src/platform/projections/read-model.ts'
import {
  type RebuildContext,
  type RebuildProgress,
  RebuildRunning,
  rebuild,
  rebuildGroup,
  UnknownReadModel,
} from '../../../src/platform/projections/rebuild.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { caughtUp, createEngine, decode, owns, rowsOf, startEngine, stateOf } from './engine.ts'
import { appendFacts, appendMany, both, entries, type Fact, tallies, talliesTable } from './tally.ts'

const names = ['a', 'b', 'c', 'd']
const name = fc.constantFrom(...names)
const fact: fc.Arbitrary<Fact> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      name,
      amount: fc.integer({ min: -9, max: 9 }),
    }),
  },
  fc.record({ kind: fc.constant('drop' as const), name }),
  fc.record({ kind: fc.constant('move' as const), from: name, to: name }),
)

const context = (pool: pg.Pool, log: EventLog): RebuildContext & { groups: readonly ReadModelGroup[] } => ({
  pool,
  log,
  decode,
  groups: [both],
})

test('for any events, batches, caches and restarts the tables equal those of one pass', async (t) => {
  const { pool } = await testDatabase(t)
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fact, { maxLength: 30 }), { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 1, max: 6 }),
      async (parts, maxBatch, maxRows) => {
        await pool.query('truncate engine.checkpoints; drop table if exists read.tallies, read.entries')
        const log = createMemoryLog()
        for (const facts of parts) {
          const engine = await startEngine(t, pool, log, [both], { maxBatch, maxRows })
          await owns(engine, 'both')
          await appendMany(log, facts)
          await caughtUp(engine, log)
          await engine.stop()
        }
        const [result] = await rebuild(context(pool, log), 'all', { compareOnly: true })
        assert.deepEqual(result?.compared, ['tallies', 'entries'])
        assert.deepEqual(result?.differences, [])
      },
    ),
    { numRuns: runs(12) },
  )
})

const readAllTheTime = (pool: pg.Pool) => {
  let stopped = false
  let reads = 0
  const failures: unknown[] = []
  const reader = async (named: boolean): Promise<void> => {
    while (!stopped)
      try {
        const text = 'select sum, trail, note from read.tallies where name = any ($1) order by name'
        const { rows } = await pool.query({ text, values: [names], ...(named && { name: 'reader' }) })
        assert.ok(rows.length > 0, 'the tables are never empty')
        reads += 1
      } catch (error) {
        failures.push(error)
        return
      }
  }
  const readers = [reader(false), reader(false), reader(true)]
  return {
    failures,
    stop: async (): Promise<number> => {
      stopped = true
      await Promise.all(readers)
      return reads
    },
  }
}

const addOne = (_: unknown, index: number): Fact => ({ kind: 'add', name: names[index % 4]!, amount: 1 })

const writeAllTheTime = (log: EventLog) => {
  let stopped = false
  const writer = (async () => {
    let written = 0
    while (!stopped) {
      await appendMany(log, Array.from({ length: 40 }, addOne))
      written += 40
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    return written
  })()
  return {
    stop: (): Promise<number> => {
      stopped = true
      return writer
    },
  }
}

test('a rebuild under load takes over without a failed read, a lost or a repeated event', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  const standby = await startEngine(t, pool, log, [both])
  await appendMany(log, Array.from({ length: 3000 }, addOne))
  await caughtUp(engine, log)
  // It may be making the tables as well, at the start: until it has seen that they are there.
  await caughtUp(standby, log)
  const reading = readAllTheTime(pool)
  const writing = writeAllTheTime(log)
  t.after(() => Promise.all([reading.stop(), writing.stop()]))
  const steps: RebuildProgress[] = []
  const tableOid = async (): Promise<unknown> =>
    (await pool.query(`select 'read.tallies'::regclass::oid as oid`)).rows[0]
  for (let round = 0; round < 3; round += 1) {
    const before = await tableOid()
    const [result] = await rebuild(context(pool, log), 'all', { onProgress: (step) => steps.push(step) })
    assert.deepEqual(result?.differences, [])
    assert.deepEqual(result?.compared, ['tallies', 'entries'])
    assert.notDeepEqual(await tableOid(), before)
  }
  const [part] = await rebuild(context(pool, log), ['tallies'])
  assert.deepEqual(part?.models, ['tallies'])
  assert.deepEqual(part?.differences, [])
  const written = 3000 + (await writing.stop())
  await caughtUp(engine, log)
  await caughtUp(standby, log)
  assert.ok((await reading.stop()) > 100)
  assert.deepEqual(reading.failures, [])
  const { rows } = await pool.query(
    'select sum(sum)::bigint as sum, sum(facts)::bigint as facts from read.tallies',
  )
  assert.deepEqual(rows, [{ sum: written, facts: written }])
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, written)
  assert.ok(steps.some(({ phase }) => phase === 'compare') && steps.some(({ phase }) => phase === 'switch'))
  assert.ok(steps.every(({ position, target }) => position <= target || target === 0))
})

test('a row that was changed outside the log is found, reported and repaired', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await appendFacts(log, [
    { kind: 'add', name: 'a', amount: 5 },
    { kind: 'add', name: 'b', amount: 6 },
    { kind: 'add', name: 'c', amount: 7 },
  ])
  await caughtUp(engine, log)
  await pool.query(`update read.tallies set sum = sum + 1 where name in ('b', 'c')`)
  await pool.query('delete from read.entries where position = 2')
  const expected = [
    { table: 'tallies', key: { name: 'b' }, column: 'sum', live: 7, rebuilt: 6 },
    {
      table: 'entries',
      key: { position: 2, part: 0 },
      column: null,
      live: null,
      rebuilt: { name: 'b', part: 0, text: null, position: 2 },
    },
  ]
  const [looked] = await rebuild(context(pool, log), 'all', { compareOnly: true })
  assert.deepEqual(looked?.differences, expected)
  assert.equal(looked?.exchanged, false)
  const [repaired] = await rebuild(context(pool, log), 'all')
  assert.deepEqual(repaired?.differences, expected)
  const [after] = await rebuild(context(pool, log), 'all', { compareOnly: true })
  assert.deepEqual(after?.differences, [])
  await appendFacts(log, [{ kind: 'add', name: 'b', amount: 1 }])
  await caughtUp(engine, log)
  const { rows } = await pool.query(`select sum from read.tallies where name = 'b'`)
  assert.deepEqual(rows, [{ sum: 7 }])
})

/** The group `both` with another model in the place of `tallies`. */
const bothWith = (other: ReadModel): ReadModelGroup => ({
  ...both,
  models: both.models.map((model) => (model === tallies ? other : model)),
})

const doubled: ReadModel = {
  ...tallies,
  version: 2,
  apply: (event, rows) => {
    const data = event.data as Fact
    tallies.apply(
      data.kind === 'add' ? { ...event, data: { ...data, amount: data.amount * 2 } } : event,
      rows,
    )
  },
}

test('an owner drops its cached rows when a rebuild replaces them', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const first = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 1 }])
  await caughtUp(first, log)
  await first.stop()
  await pool.query("update read.tallies set sum = 100 where name = 'a'")
  const owner = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 7 }])
  await caughtUp(owner, log)
  const sum = async (): Promise<unknown> =>
    (await pool.query<{ sum: number }>("select sum from read.tallies where name = 'a'")).rows[0]?.sum
  assert.equal(await sum(), 107)
  const [result] = await rebuild(context(pool, log), 'all')
  assert.equal(result?.differences[0]?.column, 'sum')
  assert.equal(await sum(), 8)
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 1 }])
  await caughtUp(owner, log)
  assert.equal(await sum(), 9, 'the owner went on from what it remembered')
})

test('a new version of a model is filled next to the old one at start, and the old program stops writing', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const old = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(old, log)
  const renewed = bothWith(doubled)
  const young = await startEngine(t, pool, log, [renewed])
  await until(() => young.progress.position('both') >= 1)
  await until(() => stateOf(old, 'both') === 'superseded')
  assert.equal(old.progress.position('both'), -1)
  await owns(young, 'both')
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(young, log)
  const { rows } = await pool.query(`select sum, facts from read.tallies where name = 'a'`)
  assert.deepEqual(rows, [{ sum: 20, facts: 2 }])
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 2)
  await assert.rejects(createEngine(t, pool, log, [both]).start(), /tallies were made by a newer version/)
})

/** The program before `both`: one of its models did not exist yet. */
const oneModel: ReadModelGroup = { ...both, models: [tallies] }

test('a program that does not know one of the models stops writing too, because it would skip events of that one', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const old = await startEngine(t, pool, log, [oneModel])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(old, log)
  const young = await startEngine(t, pool, log, [both])
  await owns(young, 'both')
  assert.equal(stateOf(old, 'both'), 'superseded')
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(young, log)
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 2)
  await assert.rejects(createEngine(t, pool, log, [oneModel]).start(), /entries were made by a newer version/)
})

test('a program that rebuilt its tables continues without the models that it does not know', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const young = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(young, log)
  await young.stop()
  await rebuild({ ...context(pool, log), groups: [oneModel] }, 'all')
  const old = await startEngine(t, pool, log, [oneModel])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(old, log)
  await old.stop()
  const again = await startEngine(t, pool, log, [both])
  await caughtUp(again, log)
  assert.equal((await rowsOf(pool, 'entries', 'position')).length, 2, 'they are rebuilt in their turn')
})

test('a table that was changed without a new version is filled again as well', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const old = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(old, log)
  await old.stop()
  const indexed = bothWith({ ...tallies, tables: [{ ...talliesTable, indexes: ['facts'] }] })
  const young = await startEngine(t, pool, log, [indexed])
  await caughtUp(young, log)
  const { rows } = await pool.query(
    `select indexdef from pg_indexes where tablename = 'tallies' and indexdef like '%(facts)'`,
  )
  assert.equal(rows.length, 1)
})

test('a table that a model no longer has is removed with the tables of its new version', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const old = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(old, log)
  await old.stop()
  const renamed = bothWith({
    ...tallies,
    tables: [{ ...talliesTable, name: 'renamed' }],
    formerTables: [talliesTable.name],
    reads: () => [],
    apply: () => undefined,
  })
  const young = await startEngine(t, pool, log, [renamed])
  await caughtUp(young, log)
  const { rows } = await pool.query(
    `select tablename from pg_tables where schemaname = 'read' and tablename = any ($1::text[])`,
    [[talliesTable.name, 'renamed']],
  )
  assert.deepEqual(rows, [{ tablename: 'renamed' }])
})

test('dropped read tables are created again', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(engine, log)
  await engine.stop()
  const before = await rowsOf(pool, 'tallies', 'name')
  await pool.query('drop table read.tallies')
  const again = await startEngine(t, pool, log, [both])
  await owns(again, 'both')
  assert.deepEqual(await rowsOf(pool, 'tallies', 'name'), before)
})

test('a rebuild of all groups accepts another log, and a partial one is refused with that advice', async (t) => {
  const { pool } = await testDatabase(t)
  const former = createMemoryLog()
  const engine = await startEngine(t, pool, former, [both])
  await appendFacts(former, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(engine, former)
  await engine.stop()
  const log = createMemoryLog()
  await appendFacts(log, [{ kind: 'add', name: 'b', amount: 6 }])
  await assert.rejects(rebuild(context(pool, log), ['tallies']), /only all of its models/)
  const [result] = await rebuild(context(pool, log), 'all')
  assert.deepEqual(result?.compared, [])
  const next = await startEngine(t, pool, log, [both])
  await caughtUp(next, log)
  const { rows } = await pool.query('select name, sum from read.tallies')
  assert.deepEqual(rows, [{ name: 'b', sum: 6 }])
})

test('a rebuild that meets an event it cannot apply leaves the live tables unchanged', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await appendFacts(log, [
    { kind: 'add', name: 'a', amount: 5 },
    { kind: 'add', name: 'b', amount: 6 },
  ])
  await caughtUp(engine, log)
  const failing = {
    ...tallies,
    apply: () => {
      throw new Error('this fact cannot be applied')
    },
  }
  const groups = [{ ...both, models: [failing, entries] }]
  await assert.rejects(rebuild({ ...context(pool, log), groups }, 'all'), { name: 'PoisonEvent' })
  const { rows } = await pool.query('select name, sum from read.tallies order by name')
  assert.deepEqual(rows, [
    { name: 'a', sum: 5 },
    { name: 'b', sum: 6 },
  ])
})

test('unknown names and a second simultaneous rebuild of a group are refused', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  await appendMany(
    log,
    Array.from({ length: 200 }, (): Fact => ({ kind: 'add', name: 'a', amount: 1 })),
  )
  await assert.rejects(rebuild(context(pool, log), ['nothing']), UnknownReadModel)
  const outcomes = await Promise.allSettled([
    rebuildGroup(context(pool, log), both, both.models),
    rebuildGroup(context(pool, log), both, both.models),
  ])
  const failed = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
  assert.ok(failed.every((error) => error instanceof RebuildRunning))
})

/** Whether the rebuild of `both` waits for a lock. */
const rebuildWaits = async (pool: pg.Pool): Promise<boolean> => {
  const { rows } = await pool.query(
    `select from pg_stat_activity where application_name = 'farebox rebuild both' and wait_event_type = 'Lock'
     and datname = current_database()`,
  )
  return rows.length > 0
}

test('a session that locks a table for long delays only the exchange', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(engine, log)
  const holder = await pool.connect()
  await holder.query('begin; select * from read.tallies')
  let done = false
  const rebuilding = rebuild(context(pool, log), 'all').then((results) => {
    done = true
    return results
  })
  await until(() => rebuildWaits(pool))
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 1 }])
  await caughtUp(engine, log)
  assert.equal(done, false)
  await holder.query('commit')
  holder.release()
  const [result] = await rebuilding
  assert.equal(result?.exchanged, true)
  assert.deepEqual(result?.differences, [])
})

test('an exchange that waits for a batch locks none of the tables that the batch will write', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(engine, log)
  await owns(engine, 'both')
  const began = Promise.withResolvers<void>()
  const mayGo = Promise.withResolvers<void>()
  const held: EventLog = {
    ...log,
    readAll: async (...of) => {
      began.resolve()
      await mayGo.promise
      return log.readAll(...of)
    },
  }
  const rebuilding = rebuild(context(pool, held), 'all')
  await began.promise
  const batch = await pool.connect()
  try {
    // As a batch begins: with the checkpoint.
    await batch.query(`begin; update engine.checkpoints set epoch = epoch where name = 'both'`)
    mayGo.resolve()
    await until(() => rebuildWaits(pool))
    await batch.query(`set local lock_timeout = '20ms'; lock table read.tallies in row exclusive mode`)
  } finally {
    await batch.query('rollback')
    batch.release()
  }
  const [result] = await rebuilding
  assert.equal(result?.exchanged, true)
})

test('an exchange that deadlocks with readers is tried again', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 5 }])
  await caughtUp(engine, log)
  const deadlocks = async (): Promise<number> => {
    const { rows } = await pool.query<{ deadlocks: number }>(
      'select deadlocks from pg_stat_database where datname = current_database()',
    )
    return rows[0]?.deadlocks ?? 0
  }
  let over = false
  // Reads one table while the exchange waits for it with the other one locked, then reads that one.
  const readCrosswise = async (): Promise<void> => {
    const reader = await pool.connect()
    try {
      await reader.query('begin; lock table read.tallies in access share mode')
      await until(async () => over || (await rebuildWaits(pool)))
      await reader.query('select from read.entries').catch(() => undefined) // either of the two is ended
    } finally {
      await reader.query('rollback')
      reader.release()
    }
  }
  const rebuilding = rebuild(context(pool, log), 'all').finally(() => {
    over = true
  })
  rebuilding.catch(() => undefined) // it is awaited below
  while (!over && (await deadlocks()) === 0) await readCrosswise()
  const [result] = await rebuilding
  assert.equal(result?.exchanged, true)
  assert.deepEqual(result?.differences, [])
})
