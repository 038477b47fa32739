import type { PlanActivated } from '../../domain/plans/events.ts'
import {
  reportedPercents,
  type TrafficBudget,
  type TrafficBudgetEvent,
  trafficBudgetIdOf,
} from '../../domain/plans/traffic-budgets.ts'
import { isTimeZone } from '../../kernel/calendar.ts'
import { column, nullable, type RowOf, readTable } from '../../platform/projections/read-model.ts'
import { plansTable } from './fulfilment-invariants.ts'
import { type Context, invariant, type Recorded, recordedMs, rowKey, subjectOf } from './invariant.ts'

const budgetsTable = readTable({
  name: 'audit_traffic_budgets',
  columns: {
    budgetId: column.text(),
    budget: column.jsonb<TrafficBudget>(),
    isSet: column.boolean(),
    /** The highest part that was reached with this limit, and the start of its count; null: none. */
    reachedFrom: nullable(column.text()),
    reachedPercent: nullable(column.bigint()),
  },
  key: ['budgetId'],
})
type BudgetRow = RowOf<typeof budgetsTable>

type OfSetBudget = Recorded<Exclude<TrafficBudgetEvent['type'], 'TrafficBudgetSet'>>

/** Checks that the budget is set, and that the event names it and its account. */
const checkSet = (
  { stream, data }: OfSetBudget,
  row: BudgetRow | undefined,
  { report }: Context,
): BudgetRow | undefined => {
  if (data.budgetId !== subjectOf({ stream }))
    report('budget-elsewhere', `it is about the traffic budget ${data.budgetId}`)
  if (!row?.isSet) report('budget-unset', `the traffic budget ${data.budgetId} is not set`)
  if (row !== undefined && row.budget.accountId !== data.accountId)
    report('budget-of-another', `the traffic budget is of ${row.budget.accountId}`)
  return row
}

/** A traffic budget is of the owner of its plan. A part of it is reported once for a period and a limit, if it is used. */
export const trafficBudgetRules = invariant({
  name: 'audit-traffic-budgets',
  version: 1,
  table: budgetsTable,
  kind: 'trafficbudget-',
  key: subjectOf,
  reads: ({ data }) => ('planId' in data && data.planId !== null ? [rowKey(plansTable, data.planId)] : []),
  on: {
    TrafficBudgetSet: (event, row, { rows, report }) => {
      const { data: budget } = event
      const { budgetId, accountId, customerId, planId, timeZone, limitBytes } = budget
      if (budgetId !== subjectOf(event) || budgetId !== trafficBudgetIdOf(accountId, budget))
        report('budget-target', `the id of the traffic budget is not the one of its target: ${budgetId}`)
      const plan = planId === null ? undefined : rows.get(plansTable, [planId])?.activated.data
      const owner = plan as PlanActivated['data'] | undefined
      if (planId !== null && (owner?.accountId !== accountId || owner.customerId !== customerId))
        report('budget-plan', `plan ${planId} is of ${owner?.accountId ?? 'no account'}`)
      if (!isTimeZone(timeZone)) report('budget-time-zone', `${timeZone} is no time zone`)
      const isSameLimit = row?.budget.limitBytes === limitBytes
      if (row?.isSet && isSameLimit && row.budget.timeZone === timeZone)
        report('budget-unchanged', 'the traffic budget has these terms already')
      return {
        budgetId,
        budget,
        isSet: true,
        reachedFrom: isSameLimit ? row.reachedFrom : null,
        reachedPercent: isSameLimit ? row.reachedPercent : null,
      }
    },
    TrafficBudgetReset: checkSet,
    TrafficBudgetRemoved: (event, row, context) => {
      checkSet(event, row, context)
      return row && { ...row, isSet: false }
    },
    TrafficBudgetReached: (event, row, context) => {
      checkSet(event, row, context)
      if (row === undefined) return
      const { report } = context
      const { planId, customerId, percent, usedBytes, limitBytes, countedFrom } = event.data
      const { budget, reachedFrom, reachedPercent } = row
      if (planId !== budget.planId || customerId !== budget.customerId || limitBytes !== budget.limitBytes)
        report('reached-of-another', 'plan, customer or limit are not those of the traffic budget')
      if (!(reportedPercents as readonly number[]).includes(percent))
        report('reached-percent', `${percent} % is not reported`)
      if (usedBytes * 100 < limitBytes * percent)
        report('reached-early', `${usedBytes} bytes are less than ${percent} % of ${limitBytes}`)
      if (Date.parse(countedFrom) > recordedMs(event))
        report('reached-future', `the count begins at ${countedFrom}, after the event`)
      if (reachedFrom === countedFrom && percent <= (reachedPercent ?? 0))
        report('reached-twice', `${reachedPercent} % were reported before`)
      return { ...row, reachedFrom: countedFrom, reachedPercent: percent }
    },
  },
})
