import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createTrafficCounters, createTrafficReports } from '../../../src/features/plans/traffic-counters.ts'
import {
  type Budgets,
  createLeases,
  createMeteringHour,
  startBudgets,
} from '../../../src/gateway/admit/budgets.ts'
import { createReporter } from '../../../src/gateway/admit/reporter.ts'
import { createPlanDirectory } from '../../../src/gateway/authenticate/plan-directory.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { createStreamStates } from '../../../src/platform/commands/log-states.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { testScheduler } from '../../support/scheduler.ts'
import type { TestApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

export type Worker = {
  readonly budgets: Budgets
  readonly name: string
  /** From now on nothing of it reaches Postgres, as if the process were gone. */
  kill(): void
  revive(): void
}

let workers = 0

/** A gateway process's budgets, inside this process, on the service's database. */
export const startWorker = (
  t: TestContext,
  { farebox: { core } }: TestApp,
  over: { readonly monotonicMs?: () => number } = {},
): Worker => {
  const { pool } = core
  const { monotonicMs = () => performance.now() } = over
  workers += 1
  const name = `test-worker-${workers}`
  let killed = false
  const alive =
    <Args extends readonly unknown[], Answer>(work: (...args: Args) => Promise<Answer>) =>
    async (...args: Args): Promise<Answer> => {
      if (killed) throw new Error('this worker was killed')
      return work(...args)
    }
  const reports = createTrafficReports({
    counters: createTrafficCounters(pool),
    clock: core.clock,
    plan: async (planId) => {
      const { rows } = await pool.query('select account_id from read.plans where plan_id = $1', [planId])
      const [row] = rows
      return row ? { accountId: row.account_id, usedBytes: 0, alarms: { bytes: null, atMs: null } } : null
    },
  })
  const logger = createLogger('silent')
  const stateOf = createStreamStates(core.log)
  const { find: findPlan } = createPlanDirectory({ pool, stateOf, monotonicMs, logger })
  const leases = createLeases({ pool, worker: name, findPlan, monotonicMs })
  const budgets = startBudgets({
    scheduler: testScheduler(),
    reports: { begin: alive(reports.begin), report: alive(reports.report) },
    leases: { renew: alive(leases.renew) },
    reporter: createReporter({ name, onRefused: assert.fail }),
    meteringHour: createMeteringHour(core.clock),
    monotonicMs,
    logger,
  })
  t.after(() => budgets.stop())
  return {
    budgets,
    name,
    kill: () => {
      killed = true
    },
    revive: () => {
      killed = false
    },
  }
}

/** Orders some GB of a plan that is topped up; returns the plan once GETs show the traffic. */
export const buyTraffic = async (app: TestApp, gigabytes: number): Promise<PlanId> => {
  const { status, body } = await app.buyer.post(
    '/api/v1/orders',
    { product_id: 'residential-premium', quantity: gigabytes },
    { headers: { 'Idempotency-Key': crypto.randomUUID() } },
  )
  if (status !== 201) throw new Error(JSON.stringify(body))
  const { planId } = body
  await until(async () => (await app.buyer.get(`/api/v1/plans/${planId}`)).status === 200, {
    what: 'the plan',
  })
  return planId
}

export const totalBytesOf = async ({ farebox: { core } }: TestApp, planId: PlanId): Promise<number> => {
  const { rows } = await core.pool.query('select total_bytes from read.plans where plan_id = $1', [planId])
  return rows[0].total_bytes
}

export const usedBytesOf = async ({ farebox: { core } }: TestApp, planId: PlanId): Promise<number> => {
  const { rows } = await core.pool.query('select used_bytes from work.traffic where plan_id = $1', [planId])
  return rows[0]?.used_bytes ?? 0
}

/** What each worker has on lease, in bytes. */
export const leasesOf = async (
  { farebox: { core } }: TestApp,
  planId: PlanId,
): Promise<Readonly<Record<string, number>>> => {
  const { rows } = await core.pool.query('select worker, bytes from work.gateway_leases where plan_id = $1', [
    planId,
  ])
  return Object.fromEntries(rows.map(({ worker, bytes }) => [worker, bytes]))
}
