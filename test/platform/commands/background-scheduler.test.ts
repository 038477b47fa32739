import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  createBackgroundScheduler,
  yieldWhileOnTime,
} from '../../../src/platform/commands/background-scheduler.ts'
import { move, purse, runnerOver } from './purse.ts'
import { postgresWorld } from './world.ts'

const lullsAt = (comeBackMs: number) => {
  const world = { nowMs: 0 }
  return { world, ...createBackgroundScheduler({ monotonicMs: () => world.nowMs, comeBackMs }) }
}
const longMs = 600_000

/** Starts to yield; `done` tells whether it has ended. */
const giving = (yieldToCommands: () => Promise<void>) => {
  const state = { done: false }
  void yieldToCommands().then(() => {
    state.done = true
  })
  return state
}

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn += 1) await nextTurn()
}

test('in a process without commands, background work yields for one turn', async () => {
  const { yieldToCommands } = lullsAt(longMs)
  const work = giving(yieldToCommands)
  assert.equal(work.done, false)
  await turns(2)
  assert.equal(work.done, true)
})

test('background work continues while a batch runs', async () => {
  const { yieldToCommands, begin } = lullsAt(longMs)
  begin()
  const work = giving(yieldToCommands)
  await turns(2)
  assert.equal(work.done, true)
})

test('right after a batch, background work waits for the next one', async () => {
  const { yieldToCommands, begin, end } = lullsAt(longMs)
  begin()
  end()
  const work = giving(yieldToCommands)
  await turns(3)
  assert.equal(work.done, false)
  begin()
  await turns(3)
  assert.equal(work.done, true)
})

test('background work continues when no batch arrives', async () => {
  const { yieldToCommands, begin, end } = lullsAt(1)
  begin()
  end()
  await yieldToCommands()
})

test('long after the last batch, background work does not wait', async () => {
  const { world, yieldToCommands, begin, end } = lullsAt(longMs)
  begin()
  end()
  world.nowMs = longMs + 1
  const work = giving(yieldToCommands)
  await turns(2)
  assert.equal(work.done, true)
})

test('if two batches run, the end of one leaves time for background work', async () => {
  const { yieldToCommands, begin, end } = lullsAt(longMs)
  begin()
  begin()
  end()
  const work = giving(yieldToCommands)
  await turns(2)
  assert.equal(work.done, true)
})

test('background work that is late does not yield', async () => {
  const { world, yieldToCommands, begin, end } = lullsAt(longMs)
  const patient = yieldWhileOnTime(yieldToCommands, () => world.nowMs < 100)
  begin()
  end()
  const work = giving(patient)
  await turns(3)
  assert.equal(work.done, false)
  world.nowMs = 100
  await patient()
  begin()
  await turns(3)
  assert.equal(work.done, true)
})

test('a runner reports whether a batch runs, however it ends', async (t) => {
  const { wire } = await postgresWorld(t)
  const calls: string[] = []
  const backgroundScheduler = { begin: () => calls.push('begin'), end: () => calls.push('end') }
  const runner = runnerOver(wire, { backgroundScheduler })
  const paid = purse('paid')
  wire.onAppendAll = (items, send) => {
    calls.push('sent')
    return send(items)
  }
  await runner.run(move(paid, 'one', 10))
  assert.deepEqual(calls.splice(0), ['begin', 'sent', 'end'])
  wire.onAppendAll = async (items, send) => {
    wire.onAppendAll = (again) => send(again)
    throw new Error(`${items.length} items went nowhere`)
  }
  await runner.run(move(paid, 'two', 10))
  // Its outcome is checked, and the rest sent, outside of any batch.
  assert.deepEqual(calls, ['begin', 'end'])
})
