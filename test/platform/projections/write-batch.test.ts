import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { openSession } from '../../../src/platform/postgres/postgres-session.ts'
import { ensureCheckpoint, readCheckpoint } from '../../../src/platform/projections/checkpoint.ts'
import { createTableSql } from '../../../src/platform/projections/definition.ts'
import type { Table } from '../../../src/platform/projections/read-model.ts'
import { createBatchWriter } from '../../../src/platform/projections/write-batch.ts'
import { testDatabase } from '../../support/postgres.ts'

const tableOf = (name: string): Table => ({
  name,
  columns: {
    id: { type: 'text' },
    amount: { type: 'bigint', nullable: true },
    small: { type: 'integer', nullable: true },
    flag: { type: 'boolean', nullable: true },
    at: { type: 'timestamptz', nullable: true },
    json: { type: 'jsonb', nullable: true },
    list: { type: 'text[]', nullable: true },
    address: { type: 'inet', nullable: true },
    words: { type: 'text', nullable: true },
  },
  key: ['id'],
  indexes: [],
})

const odd = [
  '',
  '\\N',
  '\\',
  '\\.',
  'a\tb\nc\rd\\n',
  '"quoted", {braced}',
  "it's",
  'NULL',
  '😀 ü \u2028',
  ' ',
]
const rows = [
  {
    id: 'null',
    amount: null,
    small: null,
    flag: null,
    at: null,
    json: null,
    list: null,
    address: null,
    words: null,
  },
  { id: 'left out' },
  ...odd.map((words, n) => ({
    id: `row ${n} ${words}`,
    amount: -9_007_199_254_740_991 + n,
    small: n,
    flag: n % 2 === 0,
    at: `2026-11-21T02:30:00.${String(n).padStart(3, '0')}Z`,
    json: { words, list: [words, null, 1.5] },
    list: n === 0 ? [] : odd.slice(0, n),
    address: n % 2 === 0 ? `10.0.0.${n}` : `2001:db8::${n}`,
    words,
  })),
]

test('rows are the same, byte for byte, whether they are copied or upserted', async (t) => {
  const { pool } = await testDatabase(t)
  const session = await openSession(pool, 'test')
  t.after(() => session.close())
  const table = tableOf('odd')
  await session.client.query('create schema a; create schema b')
  for (const schema of ['a', 'b']) await session.client.query(createTableSql(schema, table))
  const change = { table, inserted: [], put: [], removed: [] }
  await createBatchWriter(session.client, 'a').write([{ ...change, inserted: rows }], null)
  const other = await openSession(pool, 'test')
  t.after(() => other.close())
  await createBatchWriter(other.client, 'b').write([{ ...change, put: rows }], null)
  const { rows: found } = await session.client.query(
    'select count(*)::integer as rows, count(*) filter (where a *<> b)::integer as different from a.odd a full join b.odd b using (id)',
  )
  assert.deepEqual(found, [{ rows: rows.length, different: 0 }])
})

test('a load during the write of a batch sees all of it', async (t) => {
  const { pool } = await testDatabase(t)
  const session = await openSession(pool, 'test')
  t.after(() => session.close())
  const tables = ['one', 'two', 'three'].map(tableOf)
  for (const table of tables) await session.client.query(createTableSql('read', table))
  const writer = createBatchWriter(session.client, 'read')
  const inserted = Array.from({ length: 2000 }, (_, n) => ({ id: `row ${n}`, words: 'x'.repeat(500) }))
  const writing = writer.write(
    tables.map((table) => ({ table, inserted, put: [], removed: [] })),
    null,
  )
  for (const table of tables) assert.equal((await writer.load(table, [['row 1999']])).length, 1, table.name)
  assert.equal(await writing, true)
})

test('after a checkpoint moved, nothing is written: no new row, no replaced one, none removed', async (t) => {
  const { pool } = await testDatabase(t)
  const session = await openSession(pool, 'test')
  t.after(() => session.close())
  const table = tableOf('guarded')
  await session.client.query(createTableSql('read', table))
  await ensureCheckpoint(pool, 'hot', 'a log')
  const writer = createBatchWriter(session.client, 'read')
  const none = { table, inserted: [], put: [], removed: [] }
  const step = (from: number, to: number) => ({
    group: 'hot',
    logId: 'a log',
    epoch: 0,
    from,
    to,
    lastEvent: randomUUID(),
  })
  const words = async () =>
    (await pool.query('select id, words from read.guarded order by id')).rows.map(({ id, words }) => [
      id,
      words,
    ])
  const first = [
    { id: 'a', words: 'first' },
    { id: 'b', words: 'first' },
  ]
  assert.equal(await writer.write([{ ...none, inserted: first }], step(0, 7)), true)
  const second = {
    ...none,
    inserted: [{ id: 'c', words: 'second' }],
    put: [{ id: 'a', words: 'second' }],
    removed: [['b']],
  }
  for (const stale of [step(0, 9), { ...step(7, 9), epoch: 1 }, { ...step(7, 9), logId: 'another log' }])
    assert.equal(await writer.write([second], stale), false)
  assert.deepEqual(await words(), [
    ['a', 'first'],
    ['b', 'first'],
  ])
  assert.equal((await readCheckpoint(pool, 'hot'))?.position, 7)
  assert.equal(await writer.write([second], step(7, 9)), true)
  assert.deepEqual(await words(), [
    ['a', 'second'],
    ['c', 'second'],
  ])
})
