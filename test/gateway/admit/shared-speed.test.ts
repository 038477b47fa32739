import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Budget } from '../../../src/gateway/admit/budget.ts'
import type { Spending } from '../../../src/gateway/gateway-ports.ts'
import { chargeBytes } from '../../../src/gateway/relay/tunnel.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { machineMs } from '../../support/machine-time.ts'

const budgetAsSpending = (budget: Budget): Spending => ({
  take: (wanted) => budget.take(wanted),
  giveBack: (bytes) => budget.giveBack(bytes),
  more: (wanted, least) => budget.more(wanted, least),
  ended: budget.ended,
})

/** A process's part of a plan that is sold at 10,000 bytes a second, by a clock of the test. */
const part = () => {
  let nowMs = 0
  const terms = { planId: 'pln_timed' as PlanId, bytesPerSecond: 10_000 }
  const budget = new Budget(terms, { monotonicMs: () => nowMs, requestLease: () => undefined })
  budget.openTunnel()
  return {
    budget,
    wait: (ms: number): void => {
      nowMs += ms
    },
    /** A round, in which so many others pass traffic of the plan. @returns whether this one does */
    round: (others: number): boolean => {
      const { request } = budget.snapshot()
      budget.applyLease({ granted: 0, free: null, elsewhere: others, paused: false }, nowMs)
      return request.reserved === 1
    },
    /** All bytes that pass within a second of constant demand. */
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
  test('among the processes that carry its traffic', () => {
    for (const [others, most] of [
      [0, 10_000],
      [1, 5_000],
      [3, 2_500],
    ] as const) {
      const one = part()
      one.round(others)
      one.second() // the content of the bucket
      const passed = one.second()
      assert.ok(passed <= most && passed > 0.98 * most, `${passed} of ${most}`)
    }
  })

  test('and a process with idle tunnels gives up its share after two seconds', () => {
    const { budget, wait, round, second } = part()
    assert.equal(round(0), false, 'nothing passed yet')
    second()
    assert.equal(round(0), true)
    wait(1_900)
    assert.equal(round(0), true)
    wait(200)
    assert.equal(round(0), false)
    second()
    budget.closeTunnel()
    assert.equal(round(0), true, 'the next tunnel may come soon')
    budget.close()
    assert.equal(round(0), false, 'the process ends')
  })

  test('and a process whose first tunnel waits for its speed has a share', async () => {
    const { budget, round } = part()
    const waits = budget.more()
    assert.equal(round(1), true)
    assert.equal(await waits, null)
  })

  test('and its tunnels take pieces of a useful size, in turn, and leave time for other work of the process', async () => {
    const bytesPerSecond = 6_000_000
    const terms = { planId: 'pln_timed' as PlanId, bytesPerSecond }
    const budget = new Budget(terms, {
      monotonicMs: () => performance.now(),
      requestLease: () => undefined,
    })
    budget.applyLease({ granted: 0, free: null, elsewhere: 0, paused: false }, performance.now())
    const endMs = machineMs() + 1_000
    const chunk = 65_536
    let timers = 0
    const timer = setInterval(() => {
      timers += 1
    }, 10)
    /** As a tunnel does whose client reads as fast as it gets something. */
    const download = async (): Promise<{ readonly bytes: number; readonly pieces: number }> => {
      let [bytes, pieces, wanted] = [0, 0, chunk]
      while (machineMs() < endMs) {
        const taken = budget.take(wanted)
        bytes += taken
        pieces += taken > 0 ? 1 : 0
        const rest = wanted - taken
        wanted = rest === 0 ? chunk : rest
        if (rest > 0) assert.equal(await budget.more(rest), null)
      }
      return { bytes, pieces }
    }
    const downloads = [download(), download(), download()]
    // Requests that need all their bytes at once succeed at the same time.
    let headers = 0
    while (machineMs() < endMs) {
      assert.equal(await chargeBytes(budgetAsSpending(budget), 16_000, 'up'), null)
      headers += 1
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    const passed = await Promise.all(downloads)
    clearInterval(timer)
    budget.stop()
    assert.ok(timers >= 10, `${timers} timers of 10 ms within a second`)
    assert.ok(headers >= 3, `${headers} headers`)
    for (const { bytes, pieces } of passed) {
      assert.ok(bytes / pieces >= 16_384, `${bytes} bytes in ${pieces} pieces`)
      assert.ok(bytes >= chunk, 'each has something')
    }
  })
})

test('a request for more than the rest of a plan is refused as used up, and one for less continues', async () => {
  const terms = { planId: 'pln_small' as PlanId, bytesPerSecond: null }
  const budget = new Budget(terms, { monotonicMs: () => 0, requestLease: () => undefined })
  budget.applyLease({ granted: 100, free: 100, elsewhere: 0, paused: false }, 0)
  const header = chargeBytes(budgetAsSpending(budget), 500, 'up')
  budget.applyLease({ granted: 0, free: 0, elsewhere: 0, paused: false }, 0)
  assert.equal((await header)?.error, 'traffic_exhausted')
  assert.equal(budget.take(500), 100, 'a tunnel may use what is left')
})
