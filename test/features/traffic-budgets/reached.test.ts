import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import {
  type BudgetTarget,
  type BudgetTerms,
  countedSpan,
  decideBudget,
  decideBudgetRemoval,
  type TrafficBudgetEvent,
  trafficBudgetIdOf,
  trafficBudgetRef,
} from '../../../src/domain/plans/traffic-budgets.ts'
import { isBudgetDue } from '../../../src/features/plans/index.ts'
import { createBudgetSweep } from '../../../src/features/traffic-budgets/reached.ts'
import type { AccountId, PlanId } from '../../../src/kernel/ids.ts'
import { trafficBudgetStream } from '../../../src/kernel/streams.ts'
import { handle } from '../../../src/platform/commands/command.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import { postgresWorld, runnerOver } from '../../platform/commands/world.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { storeUse } from './use.ts'

const accountId = `acc_${'1'.repeat(32)}` as AccountId
const target: BudgetTarget = {
  scope: 'plan',
  planId: `pln_${'2'.repeat(32)}` as PlanId,
  lineSet: null,
  whitelistEntryId: null,
  customerId: null,
  period: 'day',
}
const terms: BudgetTerms = { timeZone: 'UTC', limitBytes: 1_000 }
const budgetId = trafficBudgetIdOf(accountId, target)
const dayMs = 86_400_000

const opened = async (t: TestContext) => {
  const { pool, wire: log, elsewhere } = await postgresWorld(t)
  const runnerOf = (one: typeof elsewhere) => {
    const runner = runnerOver(one)
    t.after(() => runner.close())
    return runner
  }
  const runner = runnerOf(log)
  const sweeps = [runner, runnerOf(elsewhere)].map((one) => createBudgetSweep({ pool, runner: one }))
  const cause = { name: 'set', actor: { kind: 'system', name: 'test' }, correlationId: 'test' } as const
  const set = (change: Partial<BudgetTerms> = {}) =>
    handle(runner, cause, trafficBudgetRef(budgetId), (state) =>
      decideBudget(state, accountId, target, { ...terms, ...change }),
    )
  await set()
  const setAtMs = Date.now()
  const reached = async (): Promise<readonly (readonly [number, number])[]> => {
    const found: [number, number][] = []
    for await (const stored of log.readStream(trafficBudgetStream(budgetId))) {
      const event = decode(stored) as unknown as TrafficBudgetEvent
      if (event.type === 'TrafficBudgetReached') found.push([event.data.percent, event.data.usedBytes])
    }
    return found
  }
  const isDue = async (): Promise<boolean> =>
    (await pool.query(`select from work.traffic_budget_use where ${isBudgetDue}`)).rows.length > 0
  return {
    pool,
    set,
    remove: () => handle(runner, cause, trafficBudgetRef(budgetId), decideBudgetRemoval),
    use: (usedBytes: number, atMs = Date.now()) =>
      storeUse(pool, {
        budgetId,
        countedFromMs: countedSpan({ period: 'day', timeZone: 'UTC' }, Math.min(setAtMs, atMs), atMs).fromMs,
        usedBytes,
        limitBytes: 1_000,
      }),
    sweep: async () => {
      await Promise.all(sweeps.map((sweep) => sweep()))
      assert.equal(await isDue(), false)
    },
    reached,
  }
}

test('80 and 100 % of a budget are each written once, by two sweeps at the same time', async (t) => {
  const { use, sweep, reached } = await opened(t)
  await use(799)
  await sweep()
  assert.deepEqual(await reached(), [])
  await use(900)
  await sweep()
  await use(950)
  await sweep()
  assert.deepEqual(await reached(), [[80, 900]])
  await use(1_000)
  await sweep()
  await sweep()
  assert.deepEqual(await reached(), [
    [80, 900],
    [100, 1_000],
  ])
})

test('traffic that passes both parts at once writes the higher one, and another day is reported again', async (t) => {
  const { use, sweep, reached } = await opened(t)
  await use(1_200)
  await sweep()
  await use(800, Date.now() + dayMs)
  await sweep()
  assert.deepEqual(await reached(), [
    [100, 1_200],
    [80, 800],
  ])
  await use(1_500, Date.now() - dayMs)
  await sweep()
  assert.equal((await reached()).length, 2, 'an earlier day than the last one that was reported')
})

test('a counter with an older limit is compared with the present one', async (t) => {
  const { set, use, sweep, reached } = await opened(t)
  await set({ limitBytes: 2_000 })
  await use(1_000)
  await sweep()
  assert.deepEqual(await reached(), [])
  await use(1_600)
  await sweep()
  assert.deepEqual(await reached(), [[80, 1_600]])
})

test('a removed budget writes nothing', async (t) => {
  const { remove, use, sweep, reached } = await opened(t)
  await remove()
  await use(1_000)
  await sweep()
  assert.deepEqual(await reached(), [])
})

test('the service deletes the use of periods that began more than 70 days ago', async (t) => {
  const app = await testApp(t, { own: true })
  const { pool } = app.core
  for (const days of [71, 69])
    await storeUse(pool, {
      budgetId,
      countedFromMs: app.core.clock() - days * dayMs,
      usedBytes: 1,
      limitBytes: 1_000,
    })
  // The process deleted old rows at its start. The next time is an hour later.
  app.ahead(3_600_000)
  await until(async () => (await pool.query('select from work.traffic_budget_use')).rows.length === 1, {
    timeoutMs: 30_000,
    what: 'the deletion',
  })
})
