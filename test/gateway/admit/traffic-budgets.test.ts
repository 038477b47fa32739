import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import {
  type BudgetTarget,
  decideBudget,
  decideBudgetRemoval,
  decideBudgetReset,
  type TrafficBudgetEvent,
  type TrafficBudgetState,
  trafficBudgetIdOf,
  trafficBudgetRef,
} from '../../../src/domain/plans/traffic-budgets.ts'
import { Budget } from '../../../src/gateway/admit/budget.ts'
import { createAbortHandlers } from '../../../src/gateway/admit/open-tunnels.ts'
import { type BudgetedLine, createTrafficBudgets } from '../../../src/gateway/admit/traffic-budgets.ts'
import type { KnownPlan, KnownTrafficBudget } from '../../../src/gateway/authenticate/plan-directory.ts'
import type { Denied } from '../../../src/gateway/gateway-ports.ts'
import { trafficBudgetReached } from '../../../src/gateway/refusals.ts'
import type { Decided } from '../../../src/kernel/decider.ts'
import type { AccountId, PlanId } from '../../../src/kernel/ids.ts'
import { handle } from '../../../src/platform/commands/command.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { carry, ways } from '../support/carry.ts'
import { basic, talkTo } from '../support/clients.ts'
import { startCountingTarget } from '../support/counting-target.ts'
import { startRealWorker } from '../support/real-worker.ts'
import { buyTraffic, startWorker, type Worker } from './budgets.ts'

const dayMs = 86_400_000

const change = (
  { core, demo }: TestApp,
  target: BudgetTarget,
  decide: (state: TrafficBudgetState) => Decided<TrafficBudgetEvent>,
) =>
  handle(
    core.runner,
    {
      name: 'test',
      actor: { kind: 'system', name: 'test' },
      correlationId: 'test',
      account: demo.buyer.accountId as AccountId,
    },
    trafficBudgetRef(trafficBudgetIdOf(demo.buyer.accountId as AccountId, target)),
    decide,
  )

/** The bytes of each period of a budget, the oldest first. */
const usesOf = async ({ core }: TestApp, budgetId: string): Promise<readonly number[]> => {
  const { rows } = await core.pool.query(
    'select used_bytes from work.traffic_budget_use where budget_id = $1 order by counted_from',
    [budgetId],
  )
  return rows.map(({ used_bytes: bytes }) => bytes)
}

const targetOf = (planId: PlanId, over: Partial<BudgetTarget> = {}): BudgetTarget => ({
  scope: 'plan',
  planId,
  lineSet: null,
  whitelistEntryId: null,
  customerId: null,
  period: 'day',
  ...over,
})

const anyLine: BudgetedLine = { lineSet: null, whitelistEntryId: null }

describe('traffic budgets of a plan', () => {
  let app: TestApp
  let planId: PlanId
  /** The suite's own context outlives each test's. */
  const held: (() => unknown)[] = []
  before(async () => {
    app = await testApp({ after: (end: () => unknown) => void held.push(end) } as TestContext)
    planId = await buyTraffic(app, 3)
  })
  after(async () => {
    for (const end of held) await end()
  })

  let budgets = 0
  const budgetOf = (limitBytes: number, over: Partial<KnownTrafficBudget> = {}): KnownTrafficBudget => {
    budgets += 1
    const budgetId = `tbg_${budgets}`
    const terms = { period: 'day', timeZone: 'UTC', limitBytes, resetAtMs: 0 } as const
    return { budgetId, scope: 'plan', lineSet: null, whitelistEntryId: null, ...terms, ...over }
  }
  const planOf = (...limits: readonly KnownTrafficBudget[]) =>
    ({ planId, budgets: limits }) as unknown as KnownPlan

  const startTunnels = (worker: Worker, clock: () => number = () => app.core.clock()) => {
    const limits = createTrafficBudgets({
      budgets: worker.budgets,
      abortHandlers: createAbortHandlers(),
      clock,
    })
    return {
      apply: limits.apply,
      open: async (plan: KnownPlan, line: BudgetedLine = anyLine) => {
        const budget = await worker.budgets.open({ planId, bytesPerSecond: null })
        assert.ok(!budget.denied)
        const limited = limits.limit(plan, line, budget.spending)
        const cut: Denied[] = []
        limited.onReached((denied) => void cut.push(denied))
        const close = (): void => {
          limited.close()
          budget.close()
        }
        const denied = await limited.start()
        if (denied) close()
        return { ...limited.spending, cut, denied, close }
      },
    }
  }
  type Tunnel = Awaited<ReturnType<ReturnType<typeof startTunnels>['open']>>

  /** Takes pieces until `most` bytes are taken, or none are left; the taken bytes and why it ended. */
  const takeUpTo = async (tunnel: Tunnel, most: number, piece: number) => {
    let taken = 0
    let denied = tunnel.denied
    while (denied === null && taken < most) {
      const wanted = Math.min(piece, most - taken)
      const bytes = tunnel.take(wanted, 'down')
      taken += bytes
      if (bytes < wanted) denied = await tunnel.more(wanted, 1)
    }
    if (tunnel.denied === null) tunnel.close()
    return { taken, denied }
  }

  test('property: are used to the last byte and not one more, by any lines of two workers at once', async (t) => {
    const workers = [startWorker(t, app), startWorker(t, app)] as const
    const sets = ['set1', 'set2', null] as const
    const entries = ['wle_1', null] as const
    const limit = fc.integer({ min: 1, max: 3_000_000 })
    const request = fc.record({
      worker: fc.nat(1),
      lineSet: fc.constantFrom(...sets),
      whitelistEntryId: fc.constantFrom(...entries),
      most: fc.integer({ min: 1, max: 2_000_000 }),
      piece: fc.integer({ min: 1_000, max: 200_000 }),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.record({ plan: limit, set1: limit, entry: limit }),
        fc.array(request, { minLength: 2, maxLength: 12 }),
        async (limits, requests) => {
          const ofPlan = budgetOf(limits.plan)
          const ofSet = budgetOf(limits.set1, { scope: 'line_set', lineSet: 'set1' })
          const ofEntry = budgetOf(limits.entry, { scope: 'whitelist_entry', whitelistEntryId: 'wle_1' })
          const plan = planOf(ofPlan, ofSet, ofEntry)
          const tunnels = workers.map((worker) => startTunnels(worker))
          const ends = await Promise.all(
            requests.map(async ({ worker, most, piece, ...line }) => ({
              line,
              most,
              ...(await takeUpTo(await tunnels[worker]!.open(plan, line), most, piece)),
            })),
          )
          for (const worker of workers) await worker.budgets.flush()
          const checks = [
            { budget: ofPlan, counts: () => true },
            { budget: ofSet, counts: ({ lineSet }: BudgetedLine) => lineSet === 'set1' },
            { budget: ofEntry, counts: ({ whitelistEntryId }: BudgetedLine) => whitelistEntryId === 'wle_1' },
          ]
          const left = new Map<string, number>()
          for (const { budget, counts } of checks) {
            const taken = ends.filter(({ line }) => counts(line)).reduce((sum, end) => sum + end.taken, 0)
            assert.ok(taken <= budget.limitBytes, `${taken} of ${budget.limitBytes}`)
            assert.deepEqual(
              await usesOf(app, budget.budgetId),
              taken === 0 && left ? await usesOf(app, budget.budgetId) : [taken],
            )
            left.set(budget.budgetId, budget.limitBytes - taken)
          }
          for (const { line, denied, taken, most } of ends) {
            if (denied === null) assert.equal(taken, most)
            else {
              assert.equal(denied.error, 'traffic_budget_reached')
              const spent = checks
                .filter(({ counts }) => counts(line))
                .map(({ budget }) => left.get(budget.budgetId))
              assert.ok(spent.includes(0), 'a budget of the line is used to the last byte')
            }
          }
        },
      ),
      { numRuns: runs(10) },
    )
  })

  test('begin again with the next period, for open tunnels and new ones', async (t) => {
    let aheadMs = 0
    const tunnels = startTunnels(startWorker(t, app), () => app.core.clock() + aheadMs)
    const budget = budgetOf(1_000)
    const plan = planOf(budget)
    const open = await tunnels.open(plan)
    assert.equal(open.take(600, 'down'), 600)
    aheadMs = dayMs
    assert.equal(open.take(900, 'down'), 0)
    assert.equal(await open.more(900), null)
    assert.equal(open.take(900, 'down'), 900)
    const other = await tunnels.open(plan)
    assert.equal(other.take(101, 'down'), 100)
    await until(() => other.cut.length > 0)
    assert.match(other.cut[0]!.detail, /begins again at 20/)
    assert.equal((await tunnels.open(plan)).denied?.error, 'traffic_budget_reached')
    aheadMs = 2 * dayMs
    const next = await tunnels.open(plan)
    assert.equal(next.take(1, 'up'), 1)
    for (const tunnel of [open, other, next]) tunnel.close()
    await until(async () => (await usesOf(app, budget.budgetId)).join() === '600,1000,1')
  })

  test('below the present use stop open tunnels at once, also with bytes that were leased under a higher limit', async (t) => {
    const { apply, open } = startTunnels(startWorker(t, app))
    const budget = budgetOf(100_000_000)
    const tunnel = await open(planOf(budget))
    assert.equal(tunnel.take(5_000, 'down'), 5_000)
    const lowered = planOf({ ...budget, limitBytes: 6_000 })
    apply(lowered)
    assert.equal(await tunnel.more(1_000, 1_000), null)
    assert.equal(tunnel.take(50_000, 'down'), 1_000)
    await until(() => tunnel.cut.length > 0)
    const { denied } = await open(lowered)
    assert.equal(denied?.error, 'traffic_budget_reached')
    const untilMs = Date.parse(/again at (\S+)\. /.exec(denied?.detail ?? '')?.[1] ?? '')
    const remainingS = (untilMs - app.core.clock()) / 1_000
    assert.ok(Math.abs((denied?.retryAfterSeconds ?? 0) - remainingS) < 5, 'it says when to try again')
    tunnel.close()
  })

  test('below the present one count for a renewal that is under way', () => {
    const terms = {
      ...{ budgetId: 'bud_1', countedFromMs: 0, limitBytes: 100_000 },
      reached: () => trafficBudgetReached(1, 0),
    }
    const budget = new Budget(terms, { monotonicMs: () => 0, requestLease: () => undefined })
    budget.openTunnel()
    const grant = { granted: 50_000, free: 100_000, elsewhere: 0, paused: false }
    budget.snapshot()
    budget.setLimit({ ...terms, limitBytes: 6_000 })
    budget.applyLease(grant, 0)
    assert.equal(budget.take(50_000), 0)
    assert.equal(budget.snapshot().request.reserved, 0)
    budget.applyLease({ ...grant, granted: 6_000, free: 6_000 }, 0)
    assert.equal(budget.take(50_000), 6_000)
  })

  test('apply to open tunnels when they are created, raised, reset or removed', async (t) => {
    const { apply, open } = startTunnels(startWorker(t, app))
    const tunnel = await open(planOf())
    assert.equal(tunnel.take(5_000, 'down'), 5_000)
    const budget = budgetOf(1_000)
    apply(planOf(budget))
    assert.equal(tunnel.take(10, 'down'), 0)
    assert.equal(await tunnel.more(), null)
    assert.equal(tunnel.take(400, 'down'), 400)
    const reset = { ...budget, resetAtMs: app.core.clock() - 1 }
    apply(planOf(reset))
    assert.equal(await tunnel.more(), null)
    assert.equal(tunnel.take(700, 'down'), 700)
    const raised = { ...reset, limitBytes: 3_000 }
    apply(planOf(raised))
    assert.equal(await tunnel.more(1_000, 1_000), null)
    assert.equal(tunnel.take(1_000, 'down'), 1_000)
    apply(planOf())
    assert.equal(await tunnel.more(), null)
    assert.equal(tunnel.take(50_000, 'down'), 50_000)
    tunnel.close()
    await until(async () => (await usesOf(app, budget.budgetId)).join() === '400,1700')
  })
})

test('24 parallel tunnels of two gateway workers pass a budget to the last byte and not one more', async (t) => {
  const app = await testApp(t)
  const planId = await buyTraffic(app, 1)
  const buyerId = app.demo.buyer.accountId as AccountId
  const limitBytes = 10_000_000
  const target = targetOf(planId)
  await change(app, target, (state) =>
    decideBudget(state, buyerId, target, { timeZone: 'Asia/Kathmandu', limitBytes }),
  )
  const budgetId = trafficBudgetIdOf(buyerId, target)
  const untilBudgets = (count: number) =>
    until(async () => {
      const found = 'select from read.traffic_budgets where budget_id = $1'
      return (await app.core.pool.query(found, [budgetId])).rowCount === count
    })
  await untilBudgets(1)
  const { username, password } = (await app.buyer.get(`/api/v1/plans/${planId}`)).body.connection
  const workers = [await startRealWorker(t, app), await startRealWorker(t, app)]
  const counting = await startCountingTarget(t)
  const carried = await Promise.all(
    Array.from({ length: 24 }, (_, n) =>
      carry({
        way: ways[n % ways.length]!,
        up: 50_000,
        down: 1_000_000,
        username,
        password,
        port: workers[n % workers.length]!.port,
        target: counting,
      }),
    ),
  )
  assert.ok(carried.every((each) => each !== null))
  const passed = carried.reduce((sum, each) => sum + each!.down + each!.up(), 0)
  await until(async () => (await usesOf(app, budgetId)).join() === `${limitBytes}`, { what: 'the last byte' })
  assert.ok(passed <= limitBytes, `${passed} of ${limitBytes}`)
  const ask = async (): Promise<string> => {
    const talk = await talkTo(workers[0]!.port)
    talk.write(
      `CONNECT 127.0.0.1:${counting.port} HTTP/1.1\r\nProxy-Authorization: ${basic(username, password)}\r\n\r\n`,
    )
    const head = await talk.until('\r\n\r\n')
    talk.socket.destroy()
    return head
  }
  const refused = await ask()
  assert.match(refused, /^HTTP\/1\.1 466 Traffic Used Up\r\n/)
  assert.match(refused, /\r\nX-Proxy-Error: traffic_budget_reached\r\n/)
  assert.match(refused, /\r\nX-Proxy-Detail: .*begins again at /)
  await change(app, target, decideBudgetReset)
  await until(async () => (await ask()).startsWith('HTTP/1.1 200 '), { what: 'a tunnel after the reset' })
  await change(app, target, decideBudgetRemoval)
  await untilBudgets(0)
})
