import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  createAbortHandlers,
  createOpenTunnels,
  createTunnel,
} from '../../../src/gateway/admit/open-tunnels.ts'
import { collect, holdsAtMost } from '../support/collect.ts'
import { exhausted, memorySpending } from '../support/memory-ports.ts'

test('tunnels of a plan end with it, also individually, and ended ones are not ended again', () => {
  const spending = memorySpending()
  const open = createOpenTunnels()
  const [one, two, over] = [0, 1, 2].map(() => createTunnel(spending, null))
  for (const [generation, tunnel] of [one!, two!, over!].entries()) open.add('pln_1', generation, tunnel)
  open.remove('pln_1', over!)
  open.terminate('pln_1', (generation) => generation === 0, exhausted)
  const ended = () => [one, two, over].map((tunnel) => tunnel!.spending.ended.aborted)
  assert.deepEqual(ended(), [true, false, false])
  spending.end(exhausted)
  assert.deepEqual(ended(), [true, true, false])
  assert.equal(two!.spending.ended.reason, exhausted)
  const late = createTunnel(spending, null)
  open.add('pln_1', 0, late)
  assert.equal(late.spending.ended.aborted, true)
})

test('an ended tunnel leaves no memory with its plan', async () => {
  const spending = memorySpending()
  const open = createOpenTunnels()
  const cuts = createAbortHandlers()
  const many = (count: number): void => {
    for (let n = 0; n < count; n += 1) {
      const tunnel = createTunnel(spending, null)
      open.add('pln_1', 0, tunnel)
      const uncut = cuts.on(tunnel.spending.ended, () => assert.fail('nothing is cut'))
      uncut()
      open.remove('pln_1', tunnel)
    }
  }
  many(1_000)
  collect()
  const before = process.memoryUsage().heapUsed
  many(20_000)
  await holdsAtMost(before + 2_000_000, 'heapUsed')
})
