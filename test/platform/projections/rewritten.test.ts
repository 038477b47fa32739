import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openSession } from '../../../src/platform/postgres/postgres-session.ts'
import { createTableSql } from '../../../src/platform/projections/definition.ts'
import type { Table } from '../../../src/platform/projections/read-model.ts'
import { createBatchWriter } from '../../../src/platform/projections/write-batch.ts'
import { testDatabase } from '../../support/postgres.ts'

const sums: Table = {
  name: 'sums',
  columns: { name: { type: 'text' }, sum: { type: 'bigint' } },
  key: ['name'],
  indexes: [],
  rewritten: true,
}
const rowsAt = (sum: number) =>
  Array.from({ length: 500 }, (_, n) => ({ name: `sum ${n} ${'x'.repeat(100)}`, sum }))

test('most rows of a rewritten table are replaced in place, without index updates', async (t) => {
  const { pool } = await testDatabase(t)
  const session = await openSession(pool, 'test')
  t.after(() => session.close())
  await session.client.query(createTableSql('read', sums))
  const writer = createBatchWriter(session.client, 'read')
  const nothing = { table: sums, inserted: [], put: [], removed: [] }
  await writer.write([{ ...nothing, inserted: rowsAt(0) }], null)
  for (let sum = 1; sum <= 10; sum++) await writer.write([{ ...nothing, put: rowsAt(sum) }], null)

  await session.client.query('select pg_stat_force_next_flush()')
  const { rows } = await session.client.query(
    `select n_tup_upd::integer as replaced, n_tup_hot_upd::integer as in_place
     from pg_stat_user_tables where relname = 'sums'`,
  )
  const [{ replaced, in_place: inPlace }] = rows
  assert.equal(replaced, 5000)
  // Not all of them: Postgres's own checkpoints and vacuums lock a page for a moment, and what is
  // replaced on it then goes elsewhere. Packed pages keep one row in ten.
  assert.ok(inPlace > replaced / 2, `${inPlace} of ${replaced} rows stayed on their page`)
})
