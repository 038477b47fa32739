import type pg from 'pg'
import { type BudgetUse, decideReached, trafficBudgetRef } from '../../domain/plans/traffic-budgets.ts'
import { type Clock, hasElapsed, isoTime } from '../../kernel/clock.ts'
import { newId } from '../../kernel/ids.ts'
import { type CommandRunner, handle } from '../../platform/commands/command.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { createPages, workOnEach } from '../../platform/work/worklist.ts'
import { isBudgetDue } from '../plans/index.ts'

type DueUse = { readonly budget_id: string; readonly counted_from: string; readonly used_bytes: number }

const pageSize = 100
/** Concurrent commands are appended in one batch. */
const atOnce = 20

const retentionMs = 70 * 24 * 3_600_000
const cleanupIntervalMs = 3_600_000

export const budgetSweep = worker({
  name: 'traffic-budget-sweep',
  about: 'Writes to the log which traffic budgets are used to 80 and 100 %',
  // As the sweep of plans: the gateways' report of traffic ends a quiet time.
  trigger: { everyMs: 500, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})

/**
 * Stores the result of the decision in the counter. Only a counter that later uses more bytes, or gets another limit, is
 * due again.
 */
const settle = async (
  pool: pg.Pool,
  { budget_id: budgetId, counted_from: countedFrom }: DueUse,
  reachedPercent: number,
  limitBytes: number | null,
): Promise<void> => {
  await pool.query({
    name: 'traffic-budget-settle',
    text: `update work.traffic_budget_use
              set reached_percent = $3::int, limit_bytes = coalesce($4::bigint, limit_bytes)
            where budget_id = $1::text and counted_from = $2::timestamptz`,
    values: [budgetId, countedFrom, reachedPercent, limitBytes],
  })
}

const deleteOldUse = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  await pool.query('delete from work.traffic_budget_use where counted_from < $1::timestamptz', [
    isoTime(nowMs - retentionMs),
  ])
}

type SweepDependencies = { readonly pool: pg.Pool; readonly runner: CommandRunner }

/**
 * Reports the used parts of one page of due counters. Two sweeps at the same time report each part once: the state of
 * the budget decides.
 */
export const createBudgetSweep = ({ pool, runner }: SweepDependencies): (() => Promise<void>) => {
  const page = createPages<DueUse>(pool, {
    name: 'traffic-budgets-due',
    read: `select budget_id, counted_from, used_bytes from work.traffic_budget_use where ${isBudgetDue}`,
    values: () => [],
    key: { budget_id: 'text', counted_from: 'timestamptz' },
    limit: pageSize,
  })
  const report = async (row: DueUse): Promise<void> => {
    const use: BudgetUse = { usedBytes: row.used_bytes, countedFromMs: Date.parse(row.counted_from) }
    const { reachedPercent, limitBytes } = await handle(
      runner,
      {
        name: 'report-traffic-budget',
        actor: { kind: 'system', name: budgetSweep.name },
        correlationId: newId('run'),
      },
      trafficBudgetRef(row.budget_id),
      (state) => decideReached(state, use),
    )
    await settle(pool, row, reachedPercent ?? 100, limitBytes)
  }
  return async () => workOnEach(await page(), report, atOnce)
}

/** Reports used budgets. Several processes may run it. Counters of periods that ended long ago are deleted. */
export const startBudgetSweep = ({
  scheduler,
  clock,
  ...dependencies
}: SweepDependencies & { readonly scheduler: Scheduler; readonly clock: Clock }): RunningWorker => {
  const sweep = createBudgetSweep(dependencies)
  let cleanedUpAtMs = Number.NEGATIVE_INFINITY
  return scheduler.start(budgetSweep, async () => {
    await sweep()
    if (!hasElapsed(cleanedUpAtMs, clock(), cleanupIntervalMs)) return
    cleanedUpAtMs = clock()
    await deleteOldUse(dependencies.pool, clock())
  })
}
