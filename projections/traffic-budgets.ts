import type { TrafficBudgetEvent } from '../src/domain/plans/traffic-budgets.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { column, nullable, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** Traffic budgets that were not removed. Gateways find the budgets of a plan here and read their terms from the log. */
const budgetsTable = readTable({
  name: 'traffic_budgets',
  columns: {
    budgetId: column.text(),
    accountId: column.text(),
    scope: column.text(),
    planId: nullable(column.text()),
    lineSet: nullable(column.text()),
    whitelistEntryId: nullable(column.text()),
    customerId: nullable(column.text()),
    period: column.text(),
    timeZone: column.text(),
    limitBytes: column.bigint(),
    /** Earlier traffic does not count. */
    resetAt: nullable(column.timestamptz()),
    createdAt: column.timestamptz(),
  },
  key: ['budgetId'],
  indexes: ['plan_id', 'account_id, customer_id'],
})

/** The last reset of each budget that has one. A removed budget that is set again counts from there. */
const resetsTable = readTable({
  name: 'traffic_budget_resets',
  columns: { budgetId: column.text(), resetAt: column.timestamptz() },
  key: ['budgetId'],
})

/** Reached parts of budgets. Each is mailed once. */
const reachedTable = readTable({
  name: 'traffic_budgets_reached',
  columns: {
    position: column.bigint(),
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

/** Read by `src/features/plans/traffic-budgets.ts` and by the gateways. */
export const trafficBudgets = readModel({
  name: 'traffic-budgets',
  version: 1,
  tables: [budgetsTable, resetsTable, reachedTable],
  reads: (event) =>
    isOfBudget(event)
      ? [budgetsTable, resetsTable].map(({ name }) => ({ table: name, key: [event.data.budgetId] }))
      : [],
  apply: (event, rows) => {
    if (!isOfBudget(event)) return
    const { recordedAt } = event.metadata
    const { budgetId } = event.data
    const row = rows.get(budgetsTable, [budgetId])
    switch (event.type) {
      case 'TrafficBudgetSet': {
        const { resetAt = null } = rows.get(resetsTable, [budgetId]) ?? {}
        return rows.put(budgetsTable, { ...event.data, resetAt, createdAt: row?.createdAt ?? recordedAt })
      }
      case 'TrafficBudgetReset':
        rows.put(resetsTable, { budgetId, resetAt: recordedAt })
        if (row) rows.put(budgetsTable, { ...row, resetAt: recordedAt })
        return
      case 'TrafficBudgetRemoved':
        return rows.remove(budgetsTable, [budgetId])
      case 'TrafficBudgetReached': {
        const { accountId, percent, usedBytes, limitBytes } = event.data
        return rows.add(reachedTable, {
          position: event.position,
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
