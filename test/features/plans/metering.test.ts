import assert from 'node:assert/strict'
import { test } from 'node:test'
import { meteringIntervalMs } from '../../../src/domain/plans/decide.ts'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import type { OrderId, PlanId } from '../../../src/kernel/ids.ts'
import { orderStream } from '../../../src/kernel/streams.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { secondClient, testApp } from '../../support/test-app.ts'
import { loggedOf, metered } from './metered.ts'
import { openPlan } from './open-plan.ts'
import { batchOf, sumOf } from './traffic.ts'

const gb = 1_000_000_000

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

test('traffic whose counter has a later time than the clock is appended', async (t) => {
  const { runner, log, pool, meterOver } = await metered(t)
  const meter = meterOver(runner)
  const plan = await openPlan(runner, 'a', 10 * gb)
  await meter.report({ reporter: 'g', sequence: 1, traffic: new Map([[plan, gb]]) })
  await pool.query(
    "update work.traffic set counted_since = '2100-01-01T00:00:00Z', alarm_bytes = null, alarm_at = null",
  )
  assert.equal(await meter.sweep(), 1)
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
