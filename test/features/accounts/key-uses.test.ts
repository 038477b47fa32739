import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { lastUses, startKeyUses } from '../../../src/features/accounts/key-uses.ts'
import type { KeyId } from '../../../src/kernel/ids.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'

const keyOf = (n: number) => `key_${n}` as KeyId

/** The uses of keys on a clock that is moved by hand, with the statements that they cost. */
const opened = async (t: Parameters<typeof testDatabase>[0]) => {
  const { pool } = await testDatabase(t)
  const state = { nowMs: Date.parse('2026-11-21T00:00:00Z'), statements: 0, broken: false }
  const counting = {
    query: (...args: Parameters<pg.Pool['query']>) => {
      state.statements += 1
      return state.broken ? Promise.reject(new Error('no connection')) : pool.query(...args)
    },
  } as unknown as pg.Pool
  const uses = startKeyUses({ scheduler: testScheduler(), pool: counting, clock: () => state.nowMs })
  t.after(uses.stop)
  const shown = async (n: number) => (await lastUses(pool, [keyOf(n)])).get(keyOf(n)) ?? null
  return { state, uses, shown }
}

test('a flood of requests with many keys causes one statement, and none when it repeats within the minute', async (t) => {
  const { state, uses } = await opened(t)
  const flood = () => {
    for (let n = 0; n < 50_000; n += 1) uses.note(keyOf(n % 500))
  }
  flood()
  await uses.flush()
  assert.equal(state.statements, 1)
  state.nowMs += 59_999
  flood()
  await uses.flush()
  assert.equal(state.statements, 1)
  state.nowMs += 1
  flood()
  await uses.flush()
  assert.equal(state.statements, 2)
})

test('the last use is exact to the minute, never goes back, and survives a database outage', async (t) => {
  const { state, uses, shown } = await opened(t)
  assert.equal(await shown(1), null)
  uses.note(keyOf(1))
  state.broken = true
  await assert.rejects(uses.flush(), /no connection/)
  state.broken = false
  await uses.flush()
  assert.equal(await shown(1), '2026-11-21T00:00:00.000Z')
  state.nowMs += 60_000
  uses.note(keyOf(1))
  await uses.flush()
  assert.equal(await shown(1), '2026-11-21T00:01:00.000Z')
  // A process whose clock is behind.
  state.nowMs -= 3_600_000
  uses.note(keyOf(1))
  await uses.flush()
  assert.equal(await shown(1), '2026-11-21T00:01:00.000Z')
})
