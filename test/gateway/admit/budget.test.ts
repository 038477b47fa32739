import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { refundOrder } from '../../../src/features/orders/refund-order.ts'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { machineMs } from '../../support/machine-time.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { buyTraffic, leasesOf, startWorker, totalBytesOf, usedBytesOf, type Worker } from './budgets.ts'

const speedOf = (planId: PlanId, bytesPerSecond: number | null = null) => ({ planId, bytesPerSecond })

/** A tunnel that takes pieces until nothing more is sold; the bytes that it took, and why it ended. */
const takeAll = async (worker: Worker, planId: PlanId, piece: () => number, pauseMs = 0) => {
  const entered = await worker.budgets.open(speedOf(planId))
  let taken = 0
  if (entered.denied) return { taken, denied: entered }
  for (;;) {
    const wanted = piece()
    const bytes = entered.spending.take(wanted, 'down')
    taken += bytes
    if (pauseMs > 0) await sleep(pauseMs)
    if (bytes === wanted) continue
    const denied = await entered.spending.more()
    if (denied === null) continue
    entered.close()
    return { taken, denied }
  }
}

describe('a plan sold by traffic', () => {
  let app: TestApp
  let planId: PlanId
  /** The suite's own context outlives each test's. */
  const held: { after: (() => unknown)[] } = { after: [] }
  before(async () => {
    app = await testApp({ after: (end: () => unknown) => void held.after.push(end) } as TestContext)
  })
  after(async () => {
    for (const end of held.after) await end()
  })

  test('is used to the last byte, and not one more, by three workers at once', async (t) => {
    planId = await buyTraffic(app, 2)
    const before = await usedBytesOf(app, planId)
    const workers = [startWorker(t, app), startWorker(t, app), startWorker(t, app)]
    const ends = await Promise.all(
      workers.flatMap((worker, n) => [
        takeAll(worker, planId, () => 40_000 + n),
        takeAll(worker, planId, () => 1_000_003),
      ]),
    )
    assert.deepEqual(new Set(ends.map(({ denied }) => denied.status)), new Set([466]))
    for (const { budgets } of workers) await budgets.flush()
    const total = await totalBytesOf(app, planId)
    assert.equal(
      ends.reduce((sum, { taken }) => sum + taken, 0),
      total - before,
    )
    assert.equal(await usedBytesOf(app, planId), total)
    const { body } = await app.buyer.get(`/api/v1/plans/${planId}`)
    assert.deepEqual([body.status, body.bytesUsed], ['depleted', total])
  })

  test('works again within a second of a top-up, on a worker that knew it as used up', async (t) => {
    const worker = startWorker(t, app)
    const refused = await worker.budgets.open(speedOf(planId))
    assert.ok(refused.denied)
    assert.equal(refused.status, 466)
    await buyTraffic(app, 1)
    const toppedUpMs = machineMs()
    await until(
      async () => {
        const entered = await worker.budgets.open(speedOf(planId))
        if (!entered.denied) entered.close()
        return !entered.denied
      },
      { what: 'traffic' },
    )
    assert.ok(machineMs() - toppedUpMs < 1_000)
  })

  test('is usable for half a minute while the database is down, then not until it is back', async (t) => {
    await buyTraffic(app, 1)
    let offsetMs = 0
    const worker = startWorker(t, app, { monotonicMs: () => performance.now() + offsetMs })
    const entered = await worker.budgets.open(speedOf(planId))
    assert.ok(!entered.denied)
    assert.equal(entered.spending.take(1_000, 'up'), 1_000)
    worker.kill()
    offsetMs = 29_000
    assert.equal(entered.spending.take(1_000, 'up'), 1_000)
    offsetMs = 31_000
    assert.equal(entered.spending.take(1_000, 'up'), 0)
    const grant = entered.spending.more()
    offsetMs = 42_000
    const denied = await grant
    assert.equal(denied?.status, 503)
    worker.revive()
    assert.equal(await entered.spending.more(), null)
    assert.equal(entered.spending.take(1_000, 'up'), 1_000)
    entered.close()
  })

  test('is counted to the byte before a refund takes the rest, while tunnels run', async (t) => {
    const { core } = app
    const { body } = await app.buyer.post(
      '/api/v1/orders',
      { product_id: 'residential-basic', quantity: 5 },
      { headers: { 'Idempotency-Key': 'refunded' } },
    )
    const worker = startWorker(t, app)
    const selling = takeAll(worker, body.planId, () => 1_000_000, 5)
    await until(async () => (await usedBytesOf(app, body.planId)) > 50_000_000)
    const answer = await refundOrder(
      { ...core, settleTraffic: createMeter(core).settle },
      {
        orderId: body.orderId,
        refundId: 'ref_running',
        request: { kind: 'whole' },
        actor: { kind: 'operator', name: 'test' },
        correlationId: 'test',
      },
    )
    assert.equal(answer?.kind, 'refunded')
    const { taken, denied } = await selling
    assert.equal(denied.status, 466)
    await worker.budgets.flush()
    await until(async () => (await totalBytesOf(app, body.planId)) === taken)
    assert.equal(
      await usedBytesOf(app, body.planId),
      taken,
      'what is left was refunded, and no more was sold',
    )
  })

  test('is charged once, even if a worker regains what it took under a lease that it lost', async (t) => {
    await buyTraffic(app, 1)
    const before = await usedBytesOf(app, planId)
    let offsetMs = 0
    const worker = startWorker(t, app, { monotonicMs: () => performance.now() + offsetMs })
    const entered = await worker.budgets.open(speedOf(planId))
    assert.ok(!entered.denied)
    worker.kill()
    assert.equal(entered.spending.take(10_000, 'up'), 10_000)
    offsetMs = 61_000
    await worker.budgets.flush()
    worker.revive()
    assert.equal(await entered.spending.more(), null)
    entered.spending.giveBack(10_000, 'up')
    const { taken } = await takeAll(worker, planId, () => 1_000_000)
    await worker.budgets.flush()
    assert.equal(taken, (await totalBytesOf(app, planId)) - before)
    assert.equal(await usedBytesOf(app, planId), await totalBytesOf(app, planId))
  })

  test('is taken from a worker that was cut off for a minute: others use its leased bytes', async (t) => {
    await buyTraffic(app, 1)
    let offsetMs = 0
    const cutOff = startWorker(t, app, { monotonicMs: () => performance.now() + offsetMs })
    const entered = await cutOff.budgets.open(speedOf(planId))
    assert.ok(!entered.denied)
    assert.equal(entered.spending.take(1_000, 'up'), 1_000)
    cutOff.kill()
    // Postgres has its own clock: a minute of age counts by that clock.
    offsetMs = 61_000
    await app.core.pool.query(
      `update work.gateway_leases set renewed_at = clock_timestamp() - interval '61 seconds' where worker = $1`,
      [cutOff.name],
    )
    const before = await usedBytesOf(app, planId)
    const total = await totalBytesOf(app, planId)
    const other = startWorker(t, app)
    const { taken, denied } = await takeAll(other, planId, () => 10_000_000)
    assert.equal(denied.status, 466)
    assert.equal(taken, total - before, 'all of it')
    cutOff.revive()
    assert.equal((await entered.spending.more())?.status, 466)
    entered.close()
    await cutOff.budgets.flush()
    await other.budgets.flush()
    assert.equal(await usedBytesOf(app, planId), total)
  })

  test('is never charged twice for a byte, for any takes, returns, reports and crashes of workers', async (t) => {
    const move = fc.record({
      worker: fc.nat({ max: 2 }),
      act: fc.oneof(
        { weight: 8, arbitrary: fc.constant('take' as const) },
        { weight: 2, arbitrary: fc.constant('giveBack' as const) },
        { weight: 3, arbitrary: fc.constant('flush' as const) },
        { weight: 1, arbitrary: fc.constant('leave' as const) },
        { weight: 1, arbitrary: fc.constant('kill' as const) },
      ),
      bytes: fc.integer({ min: 1, max: 120_000_000 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(move, { minLength: 5, maxLength: 40 }), async (moves) => {
        await buyTraffic(app, 1)
        const total = await totalBytesOf(app, planId)
        const usedBefore = await usedBytesOf(app, planId)
        const workers = [0, 1, 2].map(() => ({
          worker: startWorker(t, app),
          taken: 0,
          alive: true,
          tunnel: null as null | Exclude<Awaited<ReturnType<Worker['budgets']['open']>>, { denied: true }>,
        }))
        for (const { worker: at, act, bytes } of moves) {
          const one = workers[at]!
          if (!one.alive) continue
          if (act === 'kill') {
            one.alive = false
            one.worker.kill()
          } else if (act === 'flush') await one.worker.budgets.flush()
          else if (act === 'leave') {
            one.tunnel?.close()
            one.tunnel = null
          } else {
            if (one.tunnel === null) {
              const entered = await one.worker.budgets.open(speedOf(planId))
              if (entered.denied) continue
              one.tunnel = entered
            }
            const taken = one.tunnel.spending.take(bytes, 'down')
            const back = act === 'giveBack' ? Math.floor(taken / 2) : 0
            if (back > 0) one.tunnel.spending.giveBack(back, 'down')
            one.taken += taken - back
          }
        }
        for (const one of workers)
          if (one.alive) {
            one.tunnel?.close()
            await one.worker.budgets.stop()
          }
        const used = await usedBytesOf(app, planId)
        const leased = await leasesOf(app, planId)
        const sum = (of: typeof workers) => of.reduce((bytes, { taken }) => bytes + taken, 0)
        const dead = workers.filter(({ alive }) => !alive)
        assert.ok(sum(workers) <= total - usedBefore, 'more was sold than there was')
        // Consumption of survivors is counted completely; of the crashed, everything that their leases do not
        // cover.
        const counted = used - usedBefore
        assert.ok(counted >= sum(workers.filter(({ alive }) => alive)), 'sold and not counted')
        assert.ok(counted <= sum(workers), 'counted and not sold')
        for (const { worker } of dead) {
          const own = dead.length === 1 ? sum(workers) - counted : 0
          assert.ok((leased[worker.name] ?? 0) >= own, 'a dead worker sold more than it had on lease')
        }
        for (const { worker, alive } of workers)
          if (alive) assert.equal(leased[worker.name], undefined, 'a lease outlives its worker')
        await app.core.pool.query('delete from work.gateway_leases')
      }),
      { numRuns: runs(6) },
    )
  })
})
