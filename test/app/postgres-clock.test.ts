import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openPostgresClock } from '../../src/app/clock.ts'

const dayMs = 86_400_000
const startMs = Date.parse('2026-11-21T12:00:00.000Z')

/** Clocks that a test moves: of the machine, the one that is never set, and Postgres's. */
const openClocks = async () => {
  const at = { machine: startMs, monotonic: 5_000.25, postgres: startMs, answers: true }
  const pool = {
    query: async () => {
      if (!at.answers) throw new Error('Postgres is away')
      return { rows: [{ now: at.postgres }] }
    },
  }
  const time = await openPostgresClock({
    pool: pool as never,
    systemClock: () => at.machine,
    monotonicMs: () => at.monotonic,
  })
  const pass = (ms: number): void => {
    at.machine += ms
    at.monotonic += ms
    at.postgres += ms
  }
  const off = (): number => time.now() - at.postgres
  return { at, time, pass, off }
}

describe("Postgres's time in a process", () => {
  test("equals the machine's clock while both agree", async () => {
    const { at, time, pass } = await openClocks()
    at.machine += 1_500
    await time.compare()
    assert.deepEqual([time.now() === at.machine, time.aheadMs(), time.leaptMs()], [true, 1_500, 0])
    pass(10_000)
    assert.equal(time.now(), at.machine)
  })

  test("does not change when the machine's clock jumps and comes back", async () => {
    for (const leapMs of [31 * dayMs, -31 * dayMs, 3_000]) {
      const { at, time, pass, off } = await openClocks()
      at.machine += leapMs
      assert.deepEqual([off(), time.leaptMs(), time.aheadMs()], [0, leapMs, 0])
      await time.compare()
      assert.deepEqual([off(), time.leaptMs(), time.aheadMs()], [0, 0, leapMs])
      pass(20_000)
      assert.deepEqual([off(), time.leaptMs()], [0, 0])
      at.machine -= leapMs
      assert.deepEqual([off(), time.leaptMs()], [0, -leapMs])
      await time.compare()
      assert.deepEqual([off(), time.leaptMs(), time.aheadMs()], [0, 0, 0])
    }
  })

  test("runs at most half a minute ahead when the monotonic clock jumps with the machine's clock", async () => {
    const { at, time, off } = await openClocks()
    at.machine += 30 * dayMs
    at.monotonic += 30 * dayMs
    assert.equal(off(), 30_000)
    assert.equal(time.leaptMs(), 30 * dayMs - 30_000)
    await time.compare()
    assert.deepEqual([off(), time.leaptMs(), time.aheadMs()], [0, 0, 30 * dayMs])
  })

  test("continues while Postgres is down, and follows Postgres's own clock", async () => {
    const { at, time, pass, off } = await openClocks()
    at.answers = false
    for (let minute = 0; minute < 10; minute += 1) {
      pass(20_000)
      await assert.rejects(time.compare())
    }
    assert.deepEqual([off(), time.leaptMs()], [0, 0])
    at.answers = true
    at.postgres += dayMs
    await time.compare()
    assert.deepEqual([off(), time.aheadMs()], [0, -dayMs])
  })
})
