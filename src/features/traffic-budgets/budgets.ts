import type pg from 'pg'
import {
  countPlanBudgets,
  findTrafficBudget,
  listTrafficBudgets,
  type TrafficBudgetRow,
  trafficBudgetsAfter,
} from '../../../projections/traffic-budgets.ts'
import type { BudgetPeriod } from '../../domain/plans/budget-periods.ts'
import {
  type BudgetTarget,
  decideBudget,
  decideBudgetRemoval,
  decideBudgetReset,
  type TrafficBudgetState,
  trafficBudgetIdOf,
  trafficBudgetRef,
} from '../../domain/plans/traffic-budgets.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { CustomerId, PlanId } from '../../kernel/ids.ts'
import type { ListScope, AccountScope as Scope } from '../../kernel/scopes.ts'
import { type CommandRunner, handle } from '../../platform/commands/command.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db, TimePage } from '../../platform/postgres/kysely.ts'
import { customerRefs } from '../accounts/index.ts'
import { createLineSets, isEntryOfPlan } from '../lines/index.ts'
import { currentSpan, type TrafficBudgetRecord, trafficBudgetRecord } from './budget-record.ts'

/** The most budgets of a plan, its line sets and its whitelist entries. A customer has at most one for each period. */
export const maxPlanBudgets = 100

export type TrafficBudgetInput = {
  /** Left out: the budget limits all plans of the customer of the scope. */
  readonly planId?: string | undefined
  /** Only lines of this set of the plan. */
  readonly lineSet?: string | undefined
  /** Only connections of this entry of the plan's whitelist. */
  readonly whitelistEntryId?: string | undefined
  readonly period: BudgetPeriod
  /** A time zone (IANA). Default: UTC. */
  readonly timeZone?: string | undefined
  /** From `minLimitBytes` to `maxLimitBytes`. */
  readonly limitBytes: number
}

type Changed = {
  readonly id: string
  /** The position of the appended event; null: nothing changed. */
  readonly position: number | null
}

/** Limits for the traffic of plans and customers in a day, a week or a month. */
export type TrafficBudgets = {
  /**
   * Creates the budget of a target and a period, or changes its limit and time zone.
   * @throws ApiError not_found, invalid_body, traffic_budget_limit_reached
   */
  set(
    scope: Scope,
    input: TrafficBudgetInput,
    cause: Cause,
    /** A position that the caller has seen. */
    after?: number | null,
  ): Promise<Changed & { readonly isNew: boolean }>
  /**
   * Traffic before the reset no longer counts.
   * @throws ApiError not_found
   */
  reset(scope: ListScope, id: string, cause: Cause): Promise<Changed>
  /** @throws ApiError not_found */
  remove(scope: ListScope, id: string, cause: Cause): Promise<Changed>
  /** A page of the budgets within the scope, newest first, and their total. */
  list(
    scope: ListScope,
    filter: { readonly limit: number; readonly offset: number; readonly planId?: string | undefined },
  ): Promise<{ readonly budgets: readonly TrafficBudgetRecord[]; readonly total: number }>
  /** A page of the budgets within the scope, by the time of their creation. */
  after(
    scope: ListScope,
    page: TimePage & { readonly planId: string | undefined },
  ): Promise<readonly TrafficBudgetRecord[]>
  /** @throws ApiError not_found */
  get(scope: Scope, id: string): Promise<TrafficBudgetRecord>
}

const notFound = () => refuse('not_found', 'no traffic budget has this id')

const isInScope = ({ budget }: TrafficBudgetState, { accountId, customerId }: ListScope): boolean =>
  budget !== null &&
  (accountId === null || budget.accountId === accountId) &&
  (customerId === null || budget.customerId === customerId)

const canonicalTimeZone = (timeZone: string): string =>
  new Intl.DateTimeFormat('en', { timeZone }).resolvedOptions().timeZone

/**
 * The name of a time zone in a budget. It is the present name if that means the same zone, because other terms begin a
 * new count. `EST` stays `EST`; `europe/berlin` becomes `Europe/Berlin`.
 */
const zoneNameOf = (given: string, present: string | undefined): string => {
  const canonical = canonicalTimeZone(given)
  if (present !== undefined && canonicalTimeZone(present) === canonical) return present
  return canonical.toLowerCase() === given.toLowerCase() ? canonical : given
}

export const createTrafficBudgets = ({
  pool,
  db,
  runner,
  clock,
  planOf,
}: {
  readonly pool: pg.Pool
  readonly db: Db
  readonly runner: CommandRunner
  readonly clock: Clock
  /** A plan within a scope. @throws ApiError not_found */
  readonly planOf: (
    scope: Scope,
    planId: string,
    after: number | null,
  ) => Promise<{ readonly planId: PlanId; readonly customerId: string | null }>
}): TrafficBudgets => {
  const lineSets = createLineSets({ pool })

  /** The bytes of the current periods, by budget. */
  const usedBytesOf = async (
    rows: readonly TrafficBudgetRow[],
    nowMs: number,
  ): Promise<ReadonlyMap<string, number>> => {
    if (rows.length === 0) return new Map()
    const counters = await pool.query<{ budget_id: string; used_bytes: number }>({
      name: 'traffic-budget-use',
      text: `select budget_id, used_bytes from work.traffic_budget_use
              join unnest($1::text[], $2::timestamptz[]) as given (budget_id, counted_from) using (budget_id, counted_from)`,
      values: [
        rows.map(({ budgetId }) => budgetId),
        rows.map((row) => isoTime(currentSpan(row, nowMs).fromMs)),
      ],
    })
    return new Map(counters.rows.map((row) => [row.budget_id, row.used_bytes]))
  }

  const recordsOf = async (
    { accountId }: ListScope,
    rows: readonly TrafficBudgetRow[],
  ): Promise<readonly TrafficBudgetRecord[]> => {
    const nowMs = clock()
    const [used, refs] = await Promise.all([
      usedBytesOf(rows, nowMs),
      customerRefs(
        pool,
        accountId,
        rows.map((row) => row.customerId),
      ),
    ])
    return rows.map((row) =>
      trafficBudgetRecord(row, {
        usedBytes: used.get(row.budgetId) ?? 0,
        nowMs,
        customer: refs.get(row.customerId) ?? null,
      }),
    )
  }

  const targetOf = async (
    scope: Scope,
    { planId, lineSet, whitelistEntryId, period }: TrafficBudgetInput,
    after: number | null,
  ): Promise<BudgetTarget> => {
    const absent = { planId: null, lineSet: null, whitelistEntryId: null }
    if (planId === undefined) {
      if (lineSet !== undefined || whitelistEntryId !== undefined)
        throw refuse('invalid_body', 'lineSet and whitelistEntryId belong to a plan: send its planId, too')
      if (scope.customerId === null)
        throw refuse(
          'invalid_body',
          'planId is missing: send the id of a plan of GET /api/v1/plans; a reseller can instead name a customer with X-Reseller-Customer-Id to limit all plans of the customer',
        )
      return { ...absent, scope: 'customer', customerId: scope.customerId, period }
    }
    if (lineSet !== undefined && whitelistEntryId !== undefined)
      throw refuse('invalid_body', 'lineSet and whitelistEntryId exclude each other: send one of them')
    const plan = await planOf(scope, planId, after)
    const target = {
      ...absent,
      planId: plan.planId,
      customerId: plan.customerId as CustomerId | null,
      period,
    }
    if (lineSet !== undefined) {
      if ((await lineSets.targetingOf(plan.planId, lineSet)) === null)
        throw refuse('not_found', 'the plan has no line set with this id')
      return { ...target, scope: 'line_set', lineSet }
    }
    if (whitelistEntryId !== undefined) {
      if (!(await isEntryOfPlan(pool, plan.planId, whitelistEntryId)))
        throw refuse('not_found', 'the plan has no such entry on its whitelist')
      return { ...target, scope: 'whitelist_entry', whitelistEntryId }
    }
    return { ...target, scope: 'plan' }
  }

  /** Requests at the same time can exceed the limit by a few budgets, which does no harm. */
  const requireFree = async (scope: Scope, { planId }: BudgetTarget, budgetId: string): Promise<void> => {
    if (planId === null || (await findTrafficBudget(db, scope, budgetId))) return
    if ((await countPlanBudgets(db, planId)) >= maxPlanBudgets)
      throw refuse(
        'traffic_budget_limit_reached',
        `a plan has at most ${maxPlanBudgets} traffic budgets; remove one with DELETE /api/v1/traffic-budgets/{id}`,
      )
  }

  /** Runs a decision on a budget within the scope. */
  const change = async (
    scope: ListScope,
    id: string,
    name: string,
    decide: typeof decideBudgetReset,
    { actor, correlationId }: Cause,
  ): Promise<Changed> => {
    const result = await handle(
      runner,
      { actor, correlationId, name, ...(scope.accountId !== null && { account: scope.accountId }) },
      trafficBudgetRef(id),
      (state) => (isInScope(state, scope) ? decide(state) : refused('unknown_budget' as const)),
    )
    if (result.outcome === 'refused') throw notFound()
    return { id, position: result.position }
  }

  return {
    set: async (scope, input, { actor, correlationId }, after = null) => {
      const { accountId } = scope
      const { timeZone = 'UTC', limitBytes } = input
      const target = await targetOf(scope, input, after)
      const id = trafficBudgetIdOf(accountId, target)
      await requireFree(scope, target, id)
      const { isNew, position } = await handle(
        runner,
        { actor, correlationId, name: 'set-traffic-budget', account: accountId },
        trafficBudgetRef(id),
        (state) => {
          const terms = { timeZone: zoneNameOf(timeZone, state.budget?.timeZone), limitBytes }
          return decideBudget(state, accountId, target, terms)
        },
      )
      return { id, isNew, position }
    },
    reset: (scope, id, cause) => change(scope, id, 'reset-traffic-budget', decideBudgetReset, cause),
    remove: (scope, id, cause) => change(scope, id, 'remove-traffic-budget', decideBudgetRemoval, cause),
    list: async (scope, { limit, offset, planId }) => {
      const { budgets, total } = await listTrafficBudgets(db, scope, { limit, offset, planId })
      return { budgets: await recordsOf(scope, budgets), total }
    },
    after: async (scope, page) => recordsOf(scope, await trafficBudgetsAfter(db, scope, page)),
    get: async (scope, id) => {
      const row = await findTrafficBudget(db, scope, id)
      const [record] = row === undefined ? [] : await recordsOf(scope, [row])
      if (!record) throw notFound()
      return record
    },
  }
}
