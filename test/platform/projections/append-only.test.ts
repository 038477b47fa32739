import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RecordedEvent } from '../../../src/kernel/event.ts'
import type { ReadModel, ReadModelGroup, Table } from '../../../src/platform/projections/read-model.ts'
import { rebuild } from '../../../src/platform/projections/rebuild.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { caughtUp, decode, owns, startEngine, stateOf } from './engine.ts'
import { appendFacts, appendMany, type Fact } from './tally.ts'

type LineRow = {
  position: number
  part: number
  name: string
  note: string | null
  amount: number
  odd: boolean
  at: string
}

const linesTable: Table<LineRow> = {
  name: 'lines',
  columns: {
    position: { type: 'bigint' },
    part: { type: 'integer' },
    name: { type: 'text' },
    note: { type: 'text', nullable: true },
    amount: { type: 'bigint' },
    odd: { type: 'boolean' },
    at: { type: 'timestamptz' },
  },
  key: ['position', 'part'],
  indexes: ['name, position', 'using brin (note text_bloom_ops) with (autosummarize = on)'],
  appendOnly: true,
}

const seenTable: Table<{ name: string; count: number }> = {
  name: 'seen',
  columns: { name: { type: 'text' }, count: { type: 'bigint' } },
  key: ['name'],
  indexes: [],
}

/**
 * Adds a line before and one after it reads a row that `reads` did not name, so that the event is applied
 * twice.
 */
const lines: ReadModel = {
  name: 'lines',
  version: 1,
  tables: [linesTable, seenTable],
  reads: () => [],
  apply: (event, rows) => {
    const fact = event.data as Fact
    if (fact.kind === 'poison') throw new Error('this fact cannot be applied')
    if (fact.kind !== 'add') return
    const line = (part: number, note: string | null): LineRow => ({
      position: event.position,
      part,
      name: fact.name,
      note,
      amount: fact.amount,
      odd: fact.amount % 2 !== 0,
      at: event.metadata.recordedAt,
    })
    rows.add(linesTable, line(0, null))
    const count = (rows.get(seenTable, [fact.name])?.count ?? 0) + 1
    rows.put(seenTable, { name: fact.name, count })
    rows.add(linesTable, line(1, `"${count}", \\{é}\n`))
  },
}

const group: ReadModelGroup = { name: 'lines', models: [lines], batchWindowMs: 5, maxBatch: 7 }

const fact: fc.Arbitrary<Fact> = fc.record({
  kind: fc.constant('add' as const),
  name: fc.constantFrom('a', 'b', 'c', 'é'),
  amount: fc.oneof(fc.integer(), fc.maxSafeInteger()),
})

test('invariant: append-only rows are stored as added, once each, and a rebuild creates the same ones', async (t) => {
  const { pool } = await testDatabase(t)
  await fc.assert(
    fc.asyncProperty(fc.array(fact, { maxLength: 60 }), async (facts) => {
      await pool.query('drop schema read cascade; create schema read; truncate engine.checkpoints')
      const log = createMemoryLog()
      const engine = await startEngine(t, pool, log, [group], { maxRows: 2 })
      await appendMany(log, facts)
      await caughtUp(engine, log)
      const expected: LineRow[] = []
      const apply = (event: RecordedEvent): void => {
        const add = (_table: unknown, row: object): void => void expected.push(row as LineRow)
        const count = expected.filter(({ name }) => name === (event.data as { name: string }).name).length / 2
        const rows = {
          add,
          insert: () => undefined,
          put: () => undefined,
          remove: () => undefined,
          get: () => ({ count }) as never,
          attempt: () => null,
        }
        lines.apply(event, rows)
      }
      for (const stored of await log.readAll(0, 1000)) apply(decode(stored))
      const { rows } = await pool.query('select * from read.lines order by position, part')
      assert.deepEqual(
        rows.map((row) => ({ ...row })),
        expected,
      )
      const [result] = await rebuild({ pool, log, decode, groups: [group] }, 'all', { compareOnly: true })
      assert.deepEqual(result?.differences, [])
      await engine.stop()
    }),
    { numRuns: runs(12) },
  )
})

test('a poison event keeps the rows added before it, and adds none', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const add: Fact = { kind: 'add', name: 'a', amount: 1 }
  const engine = await startEngine(t, pool, log, [group])
  await owns(engine, 'lines')
  await appendFacts(log, [add, add, { kind: 'poison' }, add])
  await until(() => stateOf(engine, 'lines') === 'poisoned', { what: 'the poison to be met' })
  const { rows } = await pool.query('select position, part from read.lines order by 1, 2')
  assert.deepEqual(
    rows.map(({ position, part }) => [position, part]),
    [
      [1, 0],
      [1, 1],
      [2, 0],
      [2, 1],
    ],
  )
})
