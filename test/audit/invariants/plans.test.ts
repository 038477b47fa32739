import assert from 'node:assert/strict'
import { test } from 'node:test'
import { invariantGroup } from '../../../src/audit/invariants/invariants.ts'
import { makeEvents } from '../../golden/make.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { caughtUp, startEngine } from '../../platform/projections/engine.ts'
import { testDatabase } from '../../support/postgres.ts'

test('the auditor finds rows by an index while Postgres has no statistics of its tables', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  // One event in a batch and one row in memory: the rows of each event are read from the tables.
  const group = { ...invariantGroup, maxBatch: 1, batchWindowMs: 0 }
  const engine = await startEngine(t, pool, log, [group], { maxRows: 1 })
  await caughtUp(engine, log)
  await pool.query('select pg_stat_reset()')
  for (const { id, stream, revision, type, data, metadata } of await makeEvents()) {
    const stored = { id, type, data: JSON.stringify(data), metadata: JSON.stringify(metadata) }
    await log.append(stream, revision === 0 ? 'noStream' : revision - 1, [stored])
  }
  await caughtUp(engine, log)
  // A session counts its scans at its end.
  await engine.stop()
  const { rows } = await pool.query<{ name: string; scans: number; found: number }>(
    `select relname as name, seq_scan as scans, idx_scan as found from pg_stat_user_tables
      where schemaname = 'read' and relname = any ($1::text[])`,
    [invariantGroup.models.flatMap(({ tables }) => tables.map(({ name }) => name))],
  )
  assert.ok(rows.reduce((sum, { found }) => sum + found, 0) > 100, 'rows were read by their keys')
  assert.deepEqual(
    rows.filter(({ scans }) => scans > 0).map(({ name }) => name),
    [],
    'tables that were scanned as a whole',
  )
})
