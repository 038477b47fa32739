import type pg from 'pg'
import type { Logger } from 'pino'
import { accountRef } from '../../domain/accounts/fold.ts'
import { catalogRef } from '../../domain/catalog/fold.ts'
import type { Product } from '../../domain/catalog/product.ts'
import { planRef } from '../../domain/plans/fold.ts'
import {
  type TrafficBudget,
  type TrafficBudgetState,
  trafficBudgetRef,
} from '../../domain/plans/traffic-budgets.ts'
import type { Family } from '../../domain/shared/order-terms.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AccountId, PlanId } from '../../kernel/ids.ts'
import type { StreamStates } from '../../platform/commands/log-states.ts'
import {
  type ComparedRow,
  createCachedLookup,
  createComparison,
  foldedThrough,
  type LoggedFacts,
} from './cached-reads.ts'

/** A traffic budget that limits a plan, or some of its lines. */
export type KnownTrafficBudget = Pick<
  TrafficBudget,
  'budgetId' | 'scope' | 'lineSet' | 'whitelistEntryId' | 'period' | 'timeZone' | 'limitBytes'
> &
  Pick<TrafficBudgetState, 'resetAtMs'>

/** The state of a plan that a gateway needs, from the log. */
export type KnownPlan = {
  readonly planId: PlanId
  readonly accountId: AccountId
  readonly blocked: boolean
  /** Milliseconds; null: traffic does not expire. */
  readonly expiresAtMs: number | null
  readonly generation: number
  /** When that generation began, milliseconds; null for the first one. */
  readonly rotatedAtMs: number | null
  /** Null: a time-based plan. */
  readonly totalBytes: number | null
  /** From the log, which lags some minutes behind the counter. */
  readonly usedBytes: number
  /** The targeting that lines of the product may use, from `generate.targeting`. */
  readonly targeting: ReadonlySet<string>
  /** The family of its product; null: any exit serves the plan. */
  readonly family: Family | null
  /** The speed of a time-based plan; null: the plan is charged by traffic. */
  readonly bytesPerSecond: number | null
  readonly budgets: readonly KnownTrafficBudget[]
}

export type PlanDirectory = {
  /**
   * The plan as of at most a second ago, or of half a minute while Postgres or the log does not answer; null: no such plan.
   * @param sinceMs see `CachedLookup`
   */
  find(planId: PlanId, sinceMs?: number): Promise<KnownPlan | null>
  /** Reads these plans again, with one query. */
  refresh(planIds: readonly PlanId[]): Promise<void>
}

const maxPlans = 50_000

const bitsPerMegabit = 1_000_000

/**
 * The speed of one unit of a product, bytes per second, from a unit such as `100 Mbps` or `1 Gbps`. Default: 100 Mbps.
 */
const unitSpeed = (unit: string): number => {
  const unitMatch = /^(\d{1,6}) ?(Mbps|Gbps)$/i.exec(unit)
  const megabits = unitMatch
    ? Number(unitMatch[1]) * (unitMatch[2]?.toLowerCase() === 'gbps' ? 1_000 : 1)
    : 100
  return (megabits * bitsPerMegabit) / 8
}

type Row = ComparedRow & {
  readonly plan_id: PlanId
  readonly account_id: AccountId
  readonly product_id: string
  readonly shape: string
  readonly speed_units: number | null
  readonly total_bytes: number | null
  readonly expires_at: string | null
  readonly generation: number
  readonly rotated_at: string | null
  /** Null: the account of the row does not exist. */
  readonly blocked: boolean | null
  readonly budgets: readonly (Omit<KnownTrafficBudget, 'resetAtMs'> & { readonly resetAt: string })[]
}

/** The fields of a row that the log has too. */
type PlanRowFacts = Pick<
  KnownPlan,
  'accountId' | 'expiresAtMs' | 'generation' | 'rotatedAtMs' | 'totalBytes' | 'budgets'
> & {
  readonly blocked: boolean | null
  readonly productId: string
  readonly shape: string
  readonly speedUnits: number | null
}
type PlanFacts = PlanRowFacts &
  Pick<KnownPlan, 'blocked' | 'usedBytes'> & { readonly product: Product | null }

const timeOf = (iso: string | null): number | null => (iso === null ? null : Date.parse(iso))

const rowFactsOf = (row: Row): PlanRowFacts => ({
  accountId: row.account_id,
  blocked: row.blocked,
  expiresAtMs: timeOf(row.expires_at),
  generation: row.generation,
  rotatedAtMs: timeOf(row.rotated_at),
  productId: row.product_id,
  shape: row.shape,
  speedUnits: row.speed_units,
  totalBytes: row.total_bytes,
  budgets: row.budgets.map(({ resetAt, ...budget }) => ({ ...budget, resetAtMs: Date.parse(resetAt) })),
})

const knownBudget = (
  { budgetId, scope, lineSet, whitelistEntryId, period, timeZone, limitBytes }: TrafficBudget,
  resetAtMs: number,
): KnownTrafficBudget => ({
  budgetId,
  scope,
  lineSet,
  whitelistEntryId,
  period,
  timeZone,
  limitBytes,
  resetAtMs,
})

const readRows = async (pool: pg.Pool, planIds: readonly PlanId[]): Promise<readonly Row[]> => {
  const { rows } = await pool.query<Row>({
    name: 'gateway-plans',
    text: `select plan.plan_id, plan.account_id, plan.product_id, plan.shape, plan.speed_units, plan.total_bytes,
                  plan.expires_at, plan.generation, plan.rotated_at, account.blocked, ${foldedThrough},
                  array(
                    select jsonb_build_object(
                             'budgetId', budget_id, 'scope', scope, 'lineSet', line_set,
                             'whitelistEntryId', whitelist_entry_id, 'period', period, 'timeZone', time_zone,
                             'limitBytes', limit_bytes, 'resetAt', reset_at)
                      from (select * from read.traffic_budgets where plan_id = plan.plan_id
                            union all
                            select * from read.traffic_budgets
                             where account_id = plan.account_id and customer_id = plan.customer_id and plan_id is null) budget
                     order by budget_id) as budgets
             from read.plans plan
             left join read.accounts account on account.account_id = plan.account_id
            where plan.plan_id = any ($1::text[])`,
    values: [planIds],
  })
  return rows
}

export const createPlanDirectory = (dependencies: {
  readonly pool: pg.Pool
  readonly stateOf: StreamStates
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'error'>
  /** Called for each plan that was read again. */
  readonly onRead?: (plan: KnownPlan) => void
}): PlanDirectory => {
  const { pool, stateOf, monotonicMs, logger, onRead } = dependencies

  const logged = async (row: Row): Promise<LoggedFacts<PlanFacts>> => {
    const [{ state, position }, catalog, accountOfRow] = await Promise.all([
      stateOf(planRef(row.plan_id)),
      stateOf(catalogRef),
      stateOf(accountRef(row.account_id)),
    ])
    const { plan } = state
    if (plan === null) return { facts: null, position }
    const accountId = plan.accountId as AccountId
    const budgets = await Promise.all(row.budgets.map(({ budgetId }) => stateOf(trafficBudgetRef(budgetId))))
    const isOfPlan = (budget: TrafficBudget): boolean =>
      budget.accountId === accountId &&
      (budget.scope === 'customer' ? budget.customerId === plan.customerId : budget.planId === row.plan_id)
    const account = accountId === row.account_id ? accountOfRow : await stateOf(accountRef(accountId))
    const { productId, shape, speedUnits, totalBytes, usedBytes, expiresAtMs, generation, rotatedAtMs } = plan
    return {
      facts: {
        accountId,
        blocked: account.state?.blocked ?? true,
        productId,
        shape,
        speedUnits,
        totalBytes,
        usedBytes,
        expiresAtMs,
        generation,
        rotatedAtMs,
        budgets: budgets.flatMap(({ state: { budget, resetAtMs } }) =>
          budget !== null && isOfPlan(budget) ? [knownBudget(budget, resetAtMs)] : [],
        ),
        product: catalog.state.products.find(({ id }) => id === productId) ?? null,
      },
      position: Math.max(position, account.position, ...budgets.map((budget) => budget.position)),
    }
  }

  const factsOf = createComparison({
    entity: 'plan',
    idOf: ({ plan_id }: Row) => plan_id,
    rowFactsOf: rowFactsOf,
    readLog: logged,
    monotonicMs,
    logger,
    maxCached: maxPlans,
  })

  const knownPlan = async (row: Row): Promise<KnownPlan | null> => {
    const facts = await factsOf(row)
    if (facts === null) return null
    const { productId: _productId, shape, speedUnits, product, ...planFields } = facts
    return {
      ...planFields,
      planId: row.plan_id,
      targeting: new Set(product && 'generate' in product ? product.generate.targeting : []),
      family: product?.family ?? null,
      bytesPerSecond:
        shape === 'gateway_time' ? Math.max(1, speedUnits ?? 1) * unitSpeed(product?.unit ?? '') : null,
    }
  }
  const readPlan = async (row: Row): Promise<KnownPlan | null> => {
    const plan = await knownPlan(row)
    if (plan) onRead?.(plan)
    return plan
  }

  const plans = createCachedLookup<PlanId, KnownPlan>({
    read: async (planId) => {
      const [row] = await readRows(pool, [planId])
      return row ? readPlan(row) : null
    },
    max: maxPlans,
    monotonicMs,
  })
  return {
    find: plans.find,
    refresh: async (planIds) => {
      if (planIds.length === 0) return
      const requestedMs = monotonicMs()
      const rows = await readRows(pool, planIds)
      await Promise.all(rows.map(async (row) => plans.store(row.plan_id, await readPlan(row), requestedMs)))
    },
  }
}
