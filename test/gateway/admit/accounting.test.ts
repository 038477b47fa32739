import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import { endLeasesOf } from '../../../src/gateway/admit/budgets.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { buyPlan, gb, meter } from '../../features/webhooks/causes.ts'
import { eventsOf } from '../../features/webhooks/deliveries.ts'
import { type Customer, done } from '../../support/app-actions.ts'
import { dataDirectory } from '../../support/farebox.ts'
import fc from '../../support/fast-check.ts'
import { type RestartablePostgres, restartablePostgres } from '../../support/restartable-postgres.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { type Carried, carry, type Way, ways } from '../support/carry.ts'
import { startCountingTarget } from '../support/counting-target.ts'
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const rounds = soak ? 15 : 1
const tunnelsARound = soak ? 300 : 60
const atOnce = 8
/** Of each plan, in bytes: one that is soon used up, one that may be, and one that is not. */
const budgets = [3_000_000, 20_000_000, 400_000_000] as const
const workers = 2

/** Of an upload that is cut, and not charged (docs/guides/proxy-lines.md). */
const overshoot = 64 * 1024
/** On its way when a tunnel breaks: taken from the plan, and lost with the process or the connection. */
const onItsWay = 512 * 1024

type Tunnel = {
  readonly plan: number
  readonly worker: number
  readonly way: Way
  readonly up: number
  readonly down: number
}
type Round = {
  readonly tunnels: readonly Tunnel[]
  /** What happens before which tunnel. */
  readonly faults: readonly {
    readonly before: number
    readonly what: 'kill' | 'restart'
    readonly worker: number
  }[]
}

const bytes = fc.oneof(fc.nat(2_000), fc.nat(300_000), fc.nat(soak ? 3_000_000 : 900_000))
const tunnel: fc.Arbitrary<Tunnel> = fc.record({
  plan: fc.nat(budgets.length - 1),
  worker: fc.nat(workers - 1),
  way: fc.constantFrom(...ways),
  up: fc.oneof(fc.constant(0), fc.nat(200_000)),
  down: bytes,
})
const fault = (what: 'kill' | 'restart') =>
  fc.record({ before: fc.nat(tunnelsARound - 1), what: fc.constant(what), worker: fc.nat(workers - 1) })
const round: fc.Arbitrary<Round> = fc.record({
  tunnels: fc.array(tunnel, { minLength: tunnelsARound, maxLength: tunnelsARound }),
  faults: fc.tuple(fault('kill'), fault('restart'), ...(soak ? [fault('kill'), fault('restart')] : [])),
})

type Plan = {
  readonly planId: PlanId
  readonly customer: Customer
  readonly username: string
  readonly password: string
  readonly usedBefore: number
  readonly total: number
  /** Leased by workers that were killed. */
  lost: number
  readonly carried: Carried[]
}

type World = {
  readonly app: TestApp
  readonly postgres: RestartablePostgres
  readonly target: Awaited<ReturnType<typeof startCountingTarget>>
  readonly running: WorkerProcess[]
  readonly t: TestContext
}

const openPlan = async (app: TestApp, budget: number): Promise<Plan> => {
  const customer = await app.customer({ cents: 10_000 })
  const { planId } = await buyPlan(app, customer)
  await meter(app, planId, gb - budget)
  const { body } = await done(app.client.get(`/api/v1/plans/${planId}`, { key: customer.key }))
  const { username, password } = body.connection
  const common = { planId: planId as PlanId, customer, username, password, carried: [], lost: 0 }
  return { ...common, usedBefore: body.bytesUsed, total: body.dataGbTotal * gb }
}

/** Kills a worker, ends its leases as its supervisor does, and starts another one in its place. */
const replaceWorker = async (
  { app, running, t }: World,
  at: number,
  plans: readonly Plan[],
): Promise<void> => {
  const { pool } = app.core
  const dead = running[at]!
  await dead.kill()
  const { rows } = await until(() =>
    pool.query<{ plan_id: string; bytes: number }>(
      'select plan_id, bytes from work.gateway_leases where worker = $1',
      [dead.worker],
    ),
  )
  for (const { plan_id: planId, bytes: leased } of rows) {
    const plan = plans.find((one) => one.planId === planId)
    if (plan) plan.lost += leased
  }
  await until(() => endLeasesOf(pool, dead.worker).then(() => true))
  running[at] = await startWorkerProcess(t, app)
}

/** Resolves once every worker has reported all that it sold until now: a report goes before the lease's renewal. */
const allReported = async ({ app }: World): Promise<void> => {
  const { pool } = app.core
  const { rows } = await until(() => pool.query<{ now: Date }>('select clock_timestamp() as now'))
  await until(
    async () => {
      const held = await pool.query('select from work.gateway_leases where renewed_at <= $1', [rows[0]!.now])
      return held.rows.length === 0
    },
    { timeoutMs: 90_000, what: 'the last reports' },
  )
}

const play = async (world: World, { tunnels, faults }: Round): Promise<string> => {
  const { app, postgres, target, running } = world
  const plans = await Promise.all(budgets.map((budget) => openPlan(app, budget)))
  // Those of one kind one after another: a worker is not killed while it is replaced.
  const troubles = { kill: Promise.resolve(), restart: Promise.resolve() }
  const cause = ({ what, worker }: Round['faults'][number]): void => {
    troubles[what] = troubles[what].then(() =>
      what === 'kill' ? replaceWorker(world, worker, plans) : postgres.restart(),
    )
  }
  const waiting = tunnels.entries()
  const client = async (): Promise<void> => {
    for (const [at, { plan: number, worker, ...wanted }] of waiting) {
      for (const each of faults) if (each.before === at) cause(each)
      const plan = plans[number]!
      const open = () => carry({ ...wanted, ...plan, port: running[worker]!.port, target })
      plan.carried.push(await until(open, { timeoutMs: 120_000, what: 'a gateway that serves' }))
    }
  }
  await Promise.all(Array.from({ length: atOnce }, client))
  await Promise.all(Object.values(troubles))
  await allReported(world)

  const lines: string[] = []
  for (const plan of plans) {
    const { planId, usedBefore, total, lost, carried, customer } = plan
    await createMeter(app.core).settle(planId)
    const { rows } = await app.core.pool.query<{ used_bytes: number }>(
      'select used_bytes from work.traffic where plan_id = $1',
      [planId],
    )
    const used = rows[0]!.used_bytes
    const counted = used - usedBefore
    const seen = carried.reduce((sum, { down, up }) => sum + down + up(), 0)
    const broken = carried.filter(({ whole }) => !whole()).length
    const line = `counted ${counted}, seen ${seen}, lost ${lost}, ${carried.length} tunnels, ${broken} broken`
    lines.push(line)

    assert.ok(used <= total, `more was counted than there is: ${line}`)
    assert.ok(seen <= total - usedBefore + lost + overshoot * broken, `bytes were sold twice: ${line}`)
    assert.ok(seen <= counted + lost + overshoot * broken, `bytes passed uncounted: ${line}`)
    assert.ok(counted <= seen + onItsWay * broken, `bytes were counted that did not pass: ${line}`)

    const { body } = await done(app.client.get(`/api/v1/plans/${planId}`, { key: customer.key }))
    assert.equal(body.bytesUsed, used, 'bytesUsed is the counter')
    const events = await eventsOf(app.core.log, `plan-${planId}`)
    const metered = events
      .filter(({ type }) => type === 'TrafficMetered')
      .reduce((sum, { data }) => sum + (data as { bytes: number }).bytes, 0)
    assert.equal(metered, used, 'TrafficMetered is the counter')
  }
  return lines.join('\n  ')
}

test("after any crash the clients' bytes, counters, TrafficMetered and bytesUsed agree, and no byte is charged twice", async (t) => {
  const postgres = await restartablePostgres(t)
  const app = await testApp(t, {
    own: true,
    settings: {
      DATABASE_URL: postgres.url,
      FAREBOX_DATA: await dataDirectory(t),
      FAREBOX_GATEWAY_ALLOW_LOOPBACK: 'on',
    },
  })
  const target = await startCountingTarget(t)
  const running = await Promise.all(Array.from({ length: workers }, () => startWorkerProcess(t, app)))
  const world: World = { app, postgres, target, running, t }
  const tally = { rounds: 0, tunnels: 0, kills: 0, restarts: 0 }
  await fc.assert(
    fc.asyncProperty(round, async (one) => {
      t.diagnostic(`accounting: ${await play(world, one)}`)
      tally.rounds += 1
      tally.tunnels += one.tunnels.length
      for (const { what } of one.faults) tally[what === 'kill' ? 'kills' : 'restarts'] += 1
      if (soak) process.stdout.write(`# accounting: ${JSON.stringify(tally)}\n`)
    }),
    { numRuns: rounds },
  )
})
