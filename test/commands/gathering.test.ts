import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createGathering } from '../../src/platform/commands/queueing.ts'

const gatheringOf = (t: TestContext, limits = { gatherMs: 4, batchCommands: 200 }) => {
  const world = { nowMs: 0, over: 0 }
  const gathering = createGathering({
    limits,
    monotonicMs: () => world.nowMs,
    onOver: () => {
      world.over += 1
    },
  })
  t.after(gathering.stop)
  return { world, ...gathering }
}

test('before anything landed, nobody waits', (t) => {
  assert.equal(gatheringOf(t).waits(1), false)
})

test('who comes alone never waits for others', (t) => {
  const { landed, waits } = gatheringOf(t)
  landed({ commands: 1, waiting: 0, tookMs: 3 })
  assert.equal(waits(1), false)
})

test('a batch waits until nine tenths of those that were open are back', (t) => {
  const { landed, waits } = gatheringOf(t)
  landed({ commands: 20, waiting: 10, tookMs: 3 })
  assert.equal(waits(10), true)
  assert.equal(waits(26), true)
  assert.equal(waits(27), false)
})

test('it waits no longer than the last append took, and no longer than the limit', (t) => {
  for (const [tookMs, waitMs] of [
    [1.5, 1.5],
    [90, 4],
  ] as const) {
    const { world, landed, waits } = gatheringOf(t)
    landed({ commands: 20, waiting: 0, tookMs })
    world.nowMs = waitMs - 0.1
    assert.equal(waits(5), true)
    world.nowMs = waitMs
    assert.equal(waits(5), false)
  }
})

test('it waits for half as many again as the last batch had, so a burst that is over is soon forgotten', (t) => {
  const { landed, waits } = gatheringOf(t)
  landed({ commands: 2, waiting: 30, tookMs: 3 })
  assert.equal(waits(2), true)
  assert.equal(waits(3), false)
})

test('when the wait is over without another command, it tells', async (t) => {
  const over = Promise.withResolvers<void>()
  const gathering = createGathering({
    limits: { gatherMs: 4, batchCommands: 200 },
    monotonicMs: () => performance.now(),
    onOver: over.resolve,
  })
  t.after(gathering.stop)
  gathering.landed({ commands: 20, waiting: 0, tookMs: 4 })
  assert.equal(gathering.waits(1), true)
  await over.promise
})
