import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareTables, type Difference } from '../../../src/platform/projections/compare-tables.ts'
import { createTableSql } from '../../../src/platform/projections/definition.ts'
import type { Table } from '../../../src/platform/projections/read-model.ts'
import fc from '../../support/fast-check.ts'
import { testDatabase } from '../../support/postgres.ts'

const sample: Table = {
  name: 'sample',
  columns: { owner: { type: 'text' }, place: { type: 'bigint' }, note: { type: 'text', nullable: true } },
  key: ['owner', 'place'],
}

type Sample = { readonly owner: string; readonly place: number; readonly note: string | null }

const byKey = (one: Sample, other: Sample): number =>
  Buffer.compare(Buffer.from(one.owner), Buffer.from(other.owner)) || one.place - other.place

const rowsOf = fc
  .uniqueArray(
    fc.record<Sample>({
      owner: fc.constantFrom('a', 'A', 'é', 'a,"b"', 'a\nb'),
      place: fc.integer({ min: -3, max: 12 }),
      note: fc.constantFrom(null, '', 'x', 'x\n(a,1,x)'),
    }),
    { selector: ({ owner, place }) => `${owner} ${place}`, maxLength: 25 },
  )
  .map((rows) => rows.map((row) => ({ ...row })).toSorted(byKey))

/** The first difference, found by the plainest way. */
const expected = (live: readonly Sample[], rebuilt: readonly Sample[]): Difference | null => {
  for (const row of [...live, ...rebuilt].toSorted(byKey)) {
    const isSame = (other: Sample): boolean => byKey(row, other) === 0
    const [one, other] = [live.find(isSame) ?? null, rebuilt.find(isSame) ?? null]
    if (one?.note === other?.note && one !== null && other !== null) continue
    const { owner, place } = row
    const found = { table: 'sample', key: { owner, place } }
    return one && other
      ? { ...found, column: 'note', live: one.note, rebuilt: other.note }
      : { ...found, column: null, live: one, rebuilt: other }
  }
  return null
}

test('the first row that differs between two tables is found, in blocks of every size', async (t) => {
  const { pool } = await testDatabase(t)
  const [first, second] = await Promise.all([pool.connect(), pool.connect()])
  // The settings of the roles may differ.
  await first.query(`set bytea_output = 'escape'; set datestyle = 'German'; set timezone = 'Asia/Tokyo'`)
  for (const schema of ['one', 'two']) {
    await pool.query(`create schema ${schema}`)
    await pool.query(createTableSql(schema, sample))
  }
  const fill = async (schema: string, rows: readonly Sample[]): Promise<void> => {
    await pool.query(`delete from ${schema}.sample`)
    await pool.query(
      `insert into ${schema}.sample select * from jsonb_populate_recordset(null::${schema}.sample, $1::jsonb)`,
      [JSON.stringify(rows)],
    )
  }
  const changes = fc.array(fc.tuple(fc.nat(30), fc.constantFrom('changed', 'gone')), { maxLength: 3 })
  try {
    await fc.assert(
      fc.asyncProperty(
        rowsOf,
        rowsOf,
        changes,
        fc.integer({ min: 1, max: 8 }),
        async (live, added, edits, size) => {
          const rebuilt = new Map(live.map((row) => [JSON.stringify([row.owner, row.place]), row]))
          for (const [index, edit] of edits) {
            const row = live[index]
            const other = added[index]
            if (row) {
              const key = JSON.stringify([row.owner, row.place])
              if (edit === 'gone') rebuilt.delete(key)
              else rebuilt.set(key, { ...row, note: row.note === 'y' ? null : 'y' })
            } else if (other) rebuilt.set(JSON.stringify([other.owner, other.place]), other)
          }
          const derived = [...rebuilt.values()].toSorted(byKey)
          await fill('one', live)
          await fill('two', derived)
          assert.deepEqual(
            await compareTables(
              sample,
              { client: first, schema: 'one' },
              { client: second, schema: 'two' },
              size,
            ),
            expected(live, derived),
          )
        },
      ),
      { numRuns: 150 },
    )
  } finally {
    for (const client of [first, second]) client.release(true)
  }
})
