import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setBack } from '../eventstore/set-back.ts'
import { move, purse, purseIn, runnerOver } from './purse.ts'
import { postgresWorld } from './world.ts'

const a = purse('a')

test('a process decides nothing on events that the log has lost', async (t) => {
  const { wire, elsewhere, pool } = await postgresWorld(t)
  const one = runnerOver(wire)
  const other = runnerOver(elsewhere)
  await one.run(move(a, 'start', 5))
  assert.equal((await other.run(move(a, 'too much', -50))).answer, 'short')
  await one.run(move(a, 'lost', 100))
  await setBack(pool, 1)
  assert.equal((await other.run(move(a, 'spend', -3))).answer, 'moved')
  // The purse has two left. This process remembers 105, as of the same revision.
  const isSetBack = (error: Error): boolean => /the log was set back/.test((error.cause as Error).message)
  await assert.rejects(one.run(move(a, 'buy', -50)), isSetBack)
  await assert.rejects(one.run(move(purse('b'), 'credit', 1)), isSetBack)
  assert.equal((await purseIn(elsewhere, a)).balance, 2)
})
