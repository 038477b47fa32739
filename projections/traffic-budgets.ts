import type { BudgetPeriod } from '../src/domain/plans/budget-periods.ts'
import {
  type BudgetScope,
  reachedIdOf,
  type TrafficBudgetEvent,
  type TrafficBudgetReached,
} from '../src/domain/plans/traffic-budgets.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import type { ListScope } from '../src/kernel/scopes.ts'
import {
  countedPage,
  type Db,
  inScope,
  sql,
  type TimePage,
  timePage,
} from '../src/platform/postgres/kysely.ts'
import { column, nullable, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** Traffic budgets that were not removed. Gateways find the budgets of a plan here and read their terms from the log. */
const budgetsTable = readTable({
  name: 'traffic_budgets',
  columns: {
    budgetId: column.text(),
    accountId: column.text<AccountId>(),
    scope: column.text<BudgetScope>(),
    planId: nullable(column.text()),
    lineSet: nullable(column.text()),
    whitelistEntryId: nullable(column.text()),
    customerId: nullable(column.text()),
    period: column.text<BudgetPeriod>(),
    timeZone: column.text(),
    limitBytes: column.bigint(),
    /** Earlier traffic does not count: when it or its time zone was set, or the last reset. */
    resetAt: column.timestamptz(),
    createdAt: column.timestamptz(),
  },
  key: ['budgetId'],
  indexes: ['plan_id', 'account_id, customer_id'],
})

export type TrafficBudgetRow = RowOf<typeof budgetsTable>

/** Reached parts of budgets. Each is mailed once. */
const reachedTable = readTable({
  name: 'traffic_budgets_reached',
  columns: {
    position: column.bigint(),
    reachedId: column.text(),
    budgetId: column.text(),
    accountId: column.text(),
    percent: column.bigint(),
    usedBytes: column.bigint(),
    limitBytes: column.bigint(),
    at: column.timestamptz(),
  },
  key: ['position'],
  appendOnly: true,
})

const budgetEvents: ReadonlySet<string> = new Set<TrafficBudgetEvent['type']>([
  'TrafficBudgetSet',
  'TrafficBudgetReset',
  'TrafficBudgetRemoved',
  'TrafficBudgetReached',
])

const isOfBudget = (event: RecordedEvent): event is RecordedEvent<TrafficBudgetEvent> =>
  budgetEvents.has(event.type)

/** Read by `src/features/traffic-budgets/` and by the gateways. */
export const trafficBudgets = readModel({
  name: 'traffic-budgets',
  version: 2,
  tables: [budgetsTable, reachedTable],
  formerTables: ['traffic_budget_resets'],
  reads: (event) => (isOfBudget(event) ? [{ table: budgetsTable.name, key: [event.data.budgetId] }] : []),
  apply: (event, rows) => {
    if (!isOfBudget(event)) return
    const { recordedAt } = event.metadata
    const { budgetId } = event.data
    const row = rows.get(budgetsTable, [budgetId])
    switch (event.type) {
      case 'TrafficBudgetSet': {
        const resetAt = row?.timeZone === event.data.timeZone ? row.resetAt : recordedAt
        return rows.put(budgetsTable, { ...event.data, resetAt, createdAt: row?.createdAt ?? recordedAt })
      }
      case 'TrafficBudgetReset':
        if (row) rows.put(budgetsTable, { ...row, resetAt: recordedAt })
        return
      case 'TrafficBudgetRemoved':
        return rows.remove(budgetsTable, [budgetId])
      case 'TrafficBudgetReached': {
        const { accountId, percent, usedBytes, limitBytes } = event.data
        return rows.add(reachedTable, {
          position: event.position,
          reachedId: reachedIdOf(event as RecordedEvent<TrafficBudgetReached>),
          budgetId,
          accountId,
          percent,
          usedBytes,
          limitBytes,
          at: recordedAt,
        })
      }
      default:
        return event satisfies never
    }
  },
})

const budgetsOf = (db: Db, scope: ListScope) =>
  db.selectFrom('read.traffic_budgets as budget').where(inScope('budget', scope))

/** A traffic budget within the scope. Undefined if it does not exist or is outside of the scope. */
export const findTrafficBudget = (
  db: Db,
  scope: ListScope,
  budgetId: string,
): Promise<TrafficBudgetRow | undefined> =>
  budgetsOf(db, scope).where('budget.budgetId', '=', budgetId).selectAll('budget').executeTakeFirst()

/** Whether a budget limits a plan: its own, those of its line sets and addresses, and those of its customer. */
const limits = (planId: string) => sql<boolean>`(budget.plan_id = ${planId} or budget.scope = 'customer'
  and (budget.account_id, budget.customer_id) in (select account_id, customer_id from read.plans where plan_id = ${planId}))`

/** The budgets of a plan, its line sets and its addresses. */
export const countPlanBudgets = async (db: Db, planId: string): Promise<number> => {
  const counted = db.selectFrom('read.traffic_budgets').where('planId', '=', planId)
  const { total } = await counted
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .executeTakeFirstOrThrow()
  return total
}

/** A page of the traffic budgets within the scope, newest first, and their total. */
export const listTrafficBudgets = async (
  db: Db,
  scope: ListScope,
  filter: { readonly limit: number; readonly offset: number; readonly planId: string | undefined },
): Promise<{ readonly budgets: readonly TrafficBudgetRow[]; readonly total: number }> => {
  let matching = budgetsOf(db, scope)
  if (filter.planId !== undefined) matching = matching.where(limits(filter.planId))
  const { rows, total } = await countedPage(
    matching.selectAll('budget').orderBy('budget.createdAt', 'desc').orderBy('budget.budgetId', 'desc'),
    matching.select((eb) => eb.fn.countAll<number>().as('total')),
    filter,
  )
  return { budgets: rows, total }
}

/** A page of the traffic budgets within the scope. */
export const trafficBudgetsAfter = (
  db: Db,
  scope: ListScope,
  page: TimePage & { readonly planId: string | undefined },
): Promise<readonly TrafficBudgetRow[]> => {
  let matching = budgetsOf(db, scope)
  if (page.planId !== undefined) matching = matching.where(limits(page.planId))
  const columns = { time: 'budget.createdAt', id: 'budget.budgetId' }
  return timePage(matching.selectAll('budget'), columns, page).execute()
}
