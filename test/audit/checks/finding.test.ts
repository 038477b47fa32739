import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addEventFindings, createFindings } from '../../../src/audit/checks/finding.ts'
import { testDatabase } from '../../support/postgres.ts'

test('a check counts all findings and shows the first hundred', async (t) => {
  const { pool } = await testDatabase(t)
  const findings = createFindings()
  await addEventFindings(
    pool,
    findings,
    `select n as ordinal, n as position, 'id' as id, 'type' as type, 'stream' as stream, 0 as revision
       from generate_series($1::bigint, 1, -1) n`,
    ({ ordinal }) => ({ check: 'invariants', problem: `wrong ${ordinal}` }),
    [250],
  )
  const shown = findings.list().map((finding) => finding.where === 'event' && finding.event.ordinal)
  assert.equal(findings.count, 250)
  assert.deepEqual(
    shown,
    Array.from({ length: 100 }, (_, at) => at + 1),
  )
})
