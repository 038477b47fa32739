import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createProgressBar } from '../../../src/platform/cli/progress-bar.ts'
import { describeHolder } from '../../../src/platform/postgres/locks.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { catchUp } from '../../../src/platform/projections/bring-up.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { openLog } from '../eventstore/open-postgres.ts'
import { decode, silent } from './engine.ts'
import { appendMany, both } from './tally.ts'

test('a wait for a session that does not fold ends and names the session', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  const printed: string[] = []
  const bar = createProgressBar({ write: (text: string) => printed.push(text) > 0 })
  const context = { pool, log, decode, clock: Date.now, logger: silent, groups: [both] }
  const bringUp = () =>
    catchUp(
      { ...context, silentMs: { say: 200, end: 600 } },
      { group: both, displayName: 'the tallies' },
      bar,
    )
  await appendMany(log, [{ kind: 'add', name: 'one', amount: 1 }])
  const head = await log.head()
  assert.equal(await bringUp(), head, 'alone it folds what is missing')

  const holders = createPool({ url, applicationName: 'another' })
  t.after(() => holders.end())
  const holder = await holders.connect()
  await holder.query(`select pg_advisory_lock(hashtextextended('farebox projection ${both.name}', 0))`)
  await appendMany(log, [{ kind: 'add', name: 'two', amount: 1 }])
  await assert.rejects(
    bringUp(),
    /the tallies waits at position \d+ of \d+ for .*another.*, which folds it and does not go on/,
  )
  assert.match(printed.join(''), /^the tallies waits at position \d+ of \d+ for .*another.*\n$/)
  holder.release(true)
  await until(async () => (await describeHolder(pool, `projection ${both.name}`)) === null)
  assert.equal(await bringUp(), head + 1)
})
