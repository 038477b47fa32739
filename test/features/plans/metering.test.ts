import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { meteringIntervalMs } from '../../../src/domain/plans/decide.ts'
import type { PlanEvent } from '../../../src/domain/plans/events.ts'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import type { OrderId, PlanId } from '../../../src/kernel/ids.ts'
import { orderStream, planStream } from '../../../src/kernel/streams.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { postgresWorld, runnerOver } from '../../platform/commands/world.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { secondClient, testApp } from '../../support/test-app.ts'
import { openPlan } from './open-plan.ts'
import { batchOf, sumOf } from './traffic.ts'

const gb = 1_000_000_000
const logger = createLogger('fatal')

const eventsOf = async (log: EventLog, planId: PlanId): Promise<readonly PlanEvent[]> => {
  const events: PlanEvent[] = []
  for await (const stored of log.readStream(planStream(planId))) events.push(decode(stored) as PlanEvent)
  return events
}

/** A plan's traffic in the log: the events add up, and the last one contains the sum. */
const loggedOf = async (log: EventLog, planId: PlanId) => {
  const events = await eventsOf(log, planId)
  const metered = events.filter((event) => event.type === 'TrafficMetered')
  const bytes = metered.reduce((sum, { data }) => sum + data.bytes, 0)
  const usedBytes = metered.at(-1)?.data.usedBytes ?? 0
  assert.equal(bytes, usedBytes, 'the parts are not the sum')
  return {
    usedBytes,
    metered: metered.length,
    ranLow: events.filter(({ type }) => type === 'PlanRanLow').length,
    exhausted: events.filter(({ type }) => type === 'PlanExhausted').length,
  }
}

const metered = async (t: TestContext) => {
  const { pool, url, wire: log, elsewhere } = await postgresWorld(t)
  let offsetMs = 0
  const clock = () => Date.now() + offsetMs
  const over = (one: EventLog): CommandRunner => {
    const runner = runnerOver(one, { clock })
    t.after(() => runner.close())
    return runner
  }
  return {
    pool,
    url,
    log,
    runner: over(log),
    /** Another process's. */
    other: over(elsewhere),
    wait: (ms: number) => {
      offsetMs += ms
    },
    meterOver: (over: CommandRunner) => createMeter({ pool, runner: over, clock, logger }),
  }
}

test('a batch is counted completely and once; traffic of unknown plans is listed and not counted', async (t) => {
  const { runner, log, meterOver } = await metered(t)
  const meter = meterOver(runner)
  const plan = await openPlan(runner, 'a', 10 * gb)
  const none = 'pln_none' as PlanId
  const batch = {
    reporter: 'gateway-1',
    sequence: 1,
    traffic: new Map([
      [none, 5],
      [plan, 100],
    ]),
  }
  assert.deepEqual(await meter.report(batch), {
    counted: true,
    usedBytes: new Map([[plan, 100]]),
    alarmed: [],
    unknown: [none],
  })
  assert.deepEqual(await meter.report(batch), { counted: false })
  assert.deepEqual(await meterOver(runner).report(batch), { counted: false }, 'another process')
  const next = await meter.report({ ...batch, sequence: 2, traffic: new Map([[plan, 1]]) })
  assert.deepEqual(next.counted && next.usedBytes.get(plan), 101)
  assert.deepEqual(await meter.report({ ...batch, sequence: 3, traffic: new Map() }), {
    counted: true,
    usedBytes: new Map(),
    alarmed: [],
    unknown: [],
  })
  for (const wrong of [
    { ...batch, reporter: '' },
    { ...batch, sequence: -1 },
    { ...batch, sequence: 9, traffic: new Map([[plan, 0.5]]) },
    { ...batch, sequence: 9, traffic: new Map([[plan, -1]]) },
    { ...batch, sequence: 9, traffic: new Map([[plan, 2e15]]) },
  ])
    await assert.rejects(meter.report(wrong), RangeError)
  assert.equal((await loggedOf(log, plan)).metered, 0, 'nothing was due')
})

test("a plan's usage is appended every five minutes, and at once when the plan is low", async (t) => {
  const { runner, log, meterOver, wait } = await metered(t)
  const meter = meterOver(runner)
  const plan = await openPlan(runner, 'a', 10 * gb)
  let sequence = 0
  const report = (bytes: number) => {
    sequence += 1
    return meter.report({ reporter: 'g', sequence, traffic: new Map([[plan, bytes]]) })
  }
  for (let n = 0; n < 30; n += 1) {
    await report(1000)
    await meter.sweep()
    wait(60_000)
  }
  assert.equal((await loggedOf(log, plan)).metered, 5, 'thirty minutes hold at most six')
  wait(meteringIntervalMs)
  await meter.sweep()
  await meter.sweep()
  assert.deepEqual(await loggedOf(log, plan), { usedBytes: 30_000, metered: 5, ranLow: 0, exhausted: 0 })
  await report(9 * gb)
  assert.deepEqual(await loggedOf(log, plan), {
    usedBytes: 9 * gb + 30_000,
    metered: 6,
    ranLow: 1,
    exhausted: 0,
  })
  await report(2 * gb)
  await report(gb)
  assert.equal(await meter.sweep(), 0)
  assert.deepEqual(await loggedOf(log, plan), {
    usedBytes: 11 * gb + 30_000,
    metered: 7,
    ranLow: 1,
    exhausted: 1,
  })
})

test('traffic counted during an outage of the log is appended after it', async (t) => {
  const { runner, log, meterOver } = await metered(t)
  const plan = await openPlan(runner, 'a', gb)
  await meterOver(runner).report({ reporter: 'g', sequence: 1, traffic: new Map([[plan, 1]]) })
  const down: CommandRunner = { ...runner, run: () => Promise.reject(new Error('the log is down')) }
  const meter = meterOver(down)
  const answer = await meter.report({ reporter: 'g', sequence: 2, traffic: new Map([[plan, gb]]) })
  assert.equal(answer.counted && answer.usedBytes.get(plan), gb + 1, 'the report is taken')
  await assert.rejects(meter.sweep(), /down/)
  assert.equal((await loggedOf(log, plan)).metered, 0)
  assert.equal(await meterOver(runner).sweep(), 1)
  assert.deepEqual(await loggedOf(log, plan), { usedBytes: gb + 1, metered: 1, ranLow: 1, exhausted: 1 })
})

test('counted traffic is appended, however many counters before it belong to unknown plans', async (t) => {
  const { runner, log, pool, meterOver, wait } = await metered(t)
  // As after the log alone was restored to an earlier point.
  await pool.query(
    `insert into work.traffic (plan_id, account_id, used_bytes, counted_since)
     select 'pln_lost_' || n, 'acc_buyer', 1, '2026-01-01T00:00:00Z'::timestamptz from generate_series(1, 500) n`,
  )
  const meter = meterOver(runner)
  const plan = await openPlan(runner, 'a', 10 * gb)
  await meter.report({ reporter: 'g', sequence: 1, traffic: new Map([[plan, gb]]) })
  wait(meteringIntervalMs)
  assert.deepEqual([await meter.sweep(), await meter.sweep()], [500, 1])
  assert.equal((await loggedOf(log, plan)).usedBytes, gb)
})

test('random batches over two processes that lose answers and crash add up to the sum', async (t) => {
  const { runner, other, log, meterOver, wait } = await metered(t)
  const faults = ['none', 'none', 'none', 'before', 'after'] as const
  let run = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          process: fc.nat(1),
          fault: fc.constantFrom(...faults),
          again: fc.boolean(),
          what: fc.constantFrom('report', 'report', 'report', 'sweep', 'wait', 'settle'),
        }),
        { minLength: 1, maxLength: 25 },
      ),
      async (steps) => {
        run += 1
        const plans = await Promise.all(
          [0, 1, 2].map((n) => openPlan(runner, `${run}-${n}`, (n + 1) * 100_000_000)),
        )
        const reporters = [`${run}-first`, `${run}-second`]
        const sent = [0, 0]
        for (const { process, fault, again, what } of steps) {
          const own = [runner, other][process]!
          const faulty: CommandRunner = {
            ...own,
            run: async (command) => {
              if (fault === 'before') throw new Error('it died before the log heard of it')
              const outcome = await own.run(command)
              // Polls that append nothing are needed to start a counter at all.
              if (fault === 'after' && outcome.position !== null) throw new Error('it died after')
              return outcome
            },
          }
          // A process that died has forgotten everything.
          const meter = meterOver(fault === 'none' ? own : faulty)
          if (what === 'wait') wait(meteringIntervalMs)
          if (what === 'sweep') await meter.sweep().catch(() => undefined)
          if (what === 'settle') await meter.settle(plans[0]!).catch(() => undefined)
          if (what !== 'report') continue
          const sequence = sent[process]! + 1
          const batch = {
            reporter: reporters[process]!,
            sequence,
            traffic: batchOf(reporters[process]!, sequence, plans),
          }
          // A gateway sends its batch until it is answered.
          await meter.report(batch).catch(() => undefined)
          await meterOver(own).report(batch)
          if (again) assert.deepEqual(await meterOver(own).report(batch), { counted: false })
          sent[process] = sequence
        }
        const meter = meterOver(runner)
        for (const plan of plans) {
          await meter.settle(plan)
          await meter.settle(plan)
          const sum = reporters.reduce(
            (total, reporter, index) =>
              total +
              sumOf(
                reporter,
                Array.from({ length: sent[index]! }, (_, n) => n + 1),
                plans,
                plan,
              ),
            0,
          )
          const logged = await loggedOf(log, plan)
          assert.equal(logged.usedBytes, sum)
          assert.ok(logged.ranLow <= 1 && logged.exhausted <= 1)
        }
      },
    ),
    { numRuns: runs(25, 300) },
  )
})

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

test('a plan is low once, however many processes report it at once', async (t) => {
  const { runner, other, log, meterOver } = await metered(t)
  const meters = [runner, other].map(meterOver)
  for (let n = 0; n < 20; n += 1) {
    const plan = await openPlan(runner, `race-${n}`, gb)
    await Promise.all(
      Array.from({ length: 8 }, (_, r) =>
        meters[r % 2]!.report({
          reporter: `race-${n}-${r}`,
          sequence: 1,
          traffic: new Map([[plan, 200_000_000]]),
        }),
      ),
    )
    for (const meter of meters) await meter.settle(plan)
    const { usedBytes, ranLow, exhausted } = await loggedOf(log, plan)
    assert.deepEqual({ usedBytes, ranLow, exhausted }, { usedBytes: 1.6 * gb, ranLow: 1, exhausted: 1 })
  }
})

test('a log that is ahead of its counter, as after a restore, raises the counter', async (t) => {
  const { runner, pool, log, meterOver } = await metered(t)
  const plan = await openPlan(runner, 'a', 10 * gb)
  const meter = meterOver(runner)
  await meter.report({ reporter: 'g', sequence: 1, traffic: new Map([[plan, 4 * gb]]) })
  await meter.settle(plan)
  await pool.query('update work.traffic set used_bytes = $1::bigint', [gb])
  await meter.settle(plan)
  await meter.report({ reporter: 'g', sequence: 2, traffic: new Map([[plan, gb]]) })
  await meter.settle(plan)
  assert.equal((await loggedOf(log, plan)).usedBytes, 5 * gb)
})

test('traffic that any process metered is read at once in every other', async (t) => {
  const app = await testApp(t)
  const { client, demo, farebox } = app
  const { key } = demo.buyer
  const { body: order } = await client.post(
    '/api/v1/orders',
    { product_id: 'residential-basic', quantity: 10 },
    { key },
  )
  const planId = order.planId as PlanId
  const other = await secondClient(t, app)
  const path = `/api/v1/plans/${planId}`
  assert.equal((await other.get(path, { key })).body.dataGbUsed, 0)

  // No table is folded from here on, so that only the counter has the traffic.
  await farebox.projecting.pause()
  const meter = createMeter(farebox.core)
  await meter.report({ reporter: 'g', sequence: 1, traffic: new Map([[planId, 2.5 * gb]]) })
  for (const reader of [client, other]) {
    const { body } = await reader.get(path, { key })
    assert.deepEqual(
      [body.dataGbUsed, body.dataGbRemaining, body.bytesUsed, body.status, body.lowTrafficSince],
      [2.5, 7.5, 2.5 * gb, 'active', null],
    )
  }
  farebox.projecting.resume()
  await meter.report({ reporter: 'g', sequence: 2, traffic: new Map([[planId, 7.5 * gb]]) })
  const depleted = await client.get(path, { key })
  assert.equal(depleted.body.status, 'depleted')
  assert.ok(Date.parse(depleted.body.lowTrafficSince) > 0)
  const listed = async (status: string) =>
    (await client.get(`/api/v1/plans?status=${status}`, { key })).body.plans.map(
      (plan: { planId: string }) => plan.planId,
    )
  assert.deepEqual(await listed('depleted'), [planId])
  assert.deepEqual(await listed('active'), [])

  const topUp = await client.post(`${path}/topup`, { quantity: 10 }, { key })
  assert.equal(topUp.body.plan.lowTrafficSince, null)
  assert.equal(topUp.body.plan.status, 'active')
  assert.equal((await farebox.core.log.lastOf(orderStream(order.orderId as OrderId))) !== null, true)
})
