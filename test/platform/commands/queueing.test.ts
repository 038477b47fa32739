import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createBatchWindow } from '../../../src/platform/commands/command-queue.ts'

const gatheringOf = (t: TestContext, limits = { batchWindowMs: 4, batchCommands: 200 }) => {
  const world = { nowMs: 0, over: 0 }
  const gathering = createBatchWindow({
    limits,
    monotonicMs: () => world.nowMs,
    onOver: () => {
      world.over += 1
    },
  })
  t.after(gathering.stop)
  return { world, ...gathering }
}

test('before the first append no command waits', (t) => {
  assert.equal(gatheringOf(t).shouldWait(1), false)
})

test('a single command never waits for others', (t) => {
  const { batchAppended, shouldWait } = gatheringOf(t)
  batchAppended({ commands: 1, waiting: 0, tookMs: 3 })
  assert.equal(shouldWait(1), false)
})

test('a batch waits until nine tenths of the open commands are back', (t) => {
  const { batchAppended, shouldWait } = gatheringOf(t)
  batchAppended({ commands: 20, waiting: 10, tookMs: 3 })
  assert.equal(shouldWait(10), true)
  assert.equal(shouldWait(26), true)
  assert.equal(shouldWait(27), false)
})

test('it waits no longer than the last append took, and no longer than the limit', (t) => {
  for (const [tookMs, waitMs] of [
    [1.5, 1.5],
    [90, 4],
  ] as const) {
    const { world, batchAppended, shouldWait } = gatheringOf(t)
    batchAppended({ commands: 20, waiting: 0, tookMs })
    world.nowMs = waitMs - 0.1
    assert.equal(shouldWait(5), true)
    world.nowMs = waitMs
    assert.equal(shouldWait(5), false)
  }
})

test('it waits for one and a half times the last batch, so that the effect of a burst ends soon', (t) => {
  const { batchAppended, shouldWait } = gatheringOf(t)
  batchAppended({ commands: 2, waiting: 30, tookMs: 3 })
  assert.equal(shouldWait(2), true)
  assert.equal(shouldWait(3), false)
})

test('when the wait ends without another command, it reports so', async (t) => {
  const over = Promise.withResolvers<void>()
  const gathering = createBatchWindow({
    limits: { batchWindowMs: 4, batchCommands: 200 },
    monotonicMs: () => performance.now(),
    onOver: over.resolve,
  })
  t.after(gathering.stop)
  gathering.batchAppended({ commands: 20, waiting: 0, tookMs: 4 })
  assert.equal(gathering.shouldWait(1), true)
  await over.promise
})
