import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AccountId } from '../../../src/kernel/ids.ts'
import type { ReadModelGroup, WorkFold } from '../../../src/platform/projections/read-model.ts'
import { rebuild } from '../../../src/platform/projections/rebuild.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { caughtUp, decode, startEngine } from './engine.ts'
import { appendToLedger } from './tally.ts'

const account = 'acc_one' as AccountId

test('work tables are filled once, with the checkpoint, after any failure; only for another log they are filled again', async (t) => {
  const { pool } = await testDatabase(t)
  await pool.query('create table work.test_seen (position bigint primary key, lives integer not null)')
  let failures = 2
  let lives = 1
  const work: WorkFold = {
    name: 'seen',
    version: 1,
    types: new Set(['Fact']),
    take: async (db, events) => {
      for (const { position } of events)
        await db.query('insert into work.test_seen values ($1::bigint, $2::integer)', [position, lives])
      if (failures-- > 0) throw new Error('a failure behind the rows')
      return events.length
    },
    reset: async (db) => {
      await db.query('truncate work.test_seen')
    },
  }
  const group: ReadModelGroup = { name: 'seen', models: [], work }
  const seen = async () =>
    (await pool.query('select position, lives from work.test_seen order by position')).rows.map(
      (row) => `${row.position} ${row.lives}`,
    )
  const log = createMemoryLog()
  for (let n = 0; n < 3; n += 1) await appendToLedger(log, account)
  const engine = await startEngine(t, pool, log, [group])
  await caughtUp(engine, log)
  assert.equal(failures, -1)
  assert.deepEqual(await seen(), ['1 1', '2 1', '3 1'])
  await engine.stop()

  const rebuildAll = (of: typeof log) => rebuild({ pool, log: of, decode, groups: [group] }, 'all')
  lives = 2
  await rebuildAll(log)
  assert.deepEqual(await seen(), ['1 1', '2 1', '3 1'], 'it is the same log')
  const other = createMemoryLog()
  await appendToLedger(other, account)
  await assert.rejects(startEngine(t, pool, other, [group]), /projections rebuild all/)
  await rebuildAll(other)
  assert.deepEqual(await seen(), [])
  await caughtUp(await startEngine(t, pool, other, [group]), other)
  assert.deepEqual(await seen(), ['1 2'])
})
