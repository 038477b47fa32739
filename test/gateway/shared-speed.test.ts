import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { PlanBudget } from '../../src/gateway/budget/plan-budget.ts'
import type { PlanId } from '../../src/kernel/ids.ts'

/** A process's part of a plan that is sold at 10,000 bytes a second, by a clock of the test. */
const part = () => {
  let nowMs = 0
  const terms = { planId: 'pln_timed' as PlanId, bytesPerSecond: 10_000 }
  const budget = new PlanBudget(terms, { monotonicMs: () => nowMs, need: () => undefined })
  budget.enter()
  return {
    budget,
    wait: (ms: number): void => {
      nowMs += ms
    },
    /** A round, in which so many others pass traffic of the plan. @returns whether this one does */
    round: (others: number): boolean => {
      const { request } = budget.snapshot()
      budget.renewed({ granted: 0, free: null, elsewhere: others, paused: false }, nowMs)
      return request.held === 1
    },
    /** All that passes within a second that asks for more all the time. */
    second: (): number => {
      let passed = 0
      for (let n = 0; n < 100; n += 1) {
        nowMs += 10
        passed += budget.take(10_000)
      }
      return passed
    },
  }
}

describe('the speed of a plan is shared', () => {
  test('among the processes that pass traffic of it', () => {
    for (const [others, most] of [
      [0, 10_000],
      [1, 5_000],
      [3, 2_500],
    ] as const) {
      const one = part()
      one.round(others)
      one.second() // what the bucket held
      const passed = one.second()
      assert.ok(passed <= most && passed > 0.98 * most, `${passed} of ${most}`)
    }
  })

  test('and one whose tunnels are idle leaves its share after two seconds', () => {
    const { budget, wait, round, second } = part()
    assert.equal(round(0), false, 'nothing passed yet')
    second()
    assert.equal(round(0), true)
    wait(1_900)
    assert.equal(round(0), true)
    wait(200)
    assert.equal(round(0), false)
    second()
    budget.leave()
    assert.equal(round(0), true, 'the next tunnel may come soon')
    budget.close()
    assert.equal(round(0), false, 'the process ends')
  })

  test('and one whose first tunnel waits for its speed has a share', async () => {
    const { budget, round } = part()
    const waits = budget.more()
    assert.equal(round(1), true)
    assert.equal(await waits, null)
  })
})
