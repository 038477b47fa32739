import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { loggedOf, metered } from './metered.ts'
import { openPlan } from './open-plan.ts'
import { sumOf } from './traffic.ts'

test('gateways that are killed and send again lose nothing and count nothing twice', async (t) => {
  const { runner, log, url, meterOver } = await metered(t)
  const plans = await Promise.all(
    Array.from({ length: 12 }, (_, n) => openPlan(runner, `plan-${n}`, (n + 1) * 250_000_000)),
  )
  const batches = 60
  let kills = 0
  const gateway = async (reporter: string): Promise<void> => {
    let answered = 0
    while (answered < batches) {
      const args = [url, reporter, String(answered + 1), String(batches), plans.join(',')]
      const child = spawn(process.execPath, [join(import.meta.dirname, 'gateway-process.ts'), ...args], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      t.after(() => child.kill('SIGKILL'))
      const ended = once(child, 'close')
      const dieAfter = answered + 8 + Math.floor(Math.random() * 20)
      for await (const line of createInterface(child.stdout)) {
        answered = Number(line)
        if (answered < dieAfter || answered >= batches) continue
        // Somewhere in the middle of the next one.
        setTimeout(() => child.kill('SIGKILL'), Math.random() * 4)
        kills += 1
        break
      }
      const [code] = await ended
      assert.ok(code === 0 || code === null, `a gateway ended with ${code}`)
    }
  }
  await Promise.all(['first', 'second'].map(gateway))
  const meter = meterOver(runner)
  const all = Array.from({ length: batches }, (_, n) => n + 1)
  for (const plan of plans) {
    await meter.settle(plan)
    const { usedBytes, ranLow, exhausted } = await loggedOf(log, plan)
    const sum = sumOf('first', all, plans, plan) + sumOf('second', all, plans, plan)
    assert.equal(usedBytes, sum)
    const total = (plans.indexOf(plan) + 1) * 250_000_000
    assert.equal(ranLow, (total - sum) * 10 <= total ? 1 : 0)
    assert.equal(exhausted, sum >= total ? 1 : 0)
  }
  t.diagnostic(`${kills} kills`)
})
