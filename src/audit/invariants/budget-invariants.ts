import type { PlanActivated } from '../../domain/plans/events.ts'
import {
  type BudgetTarget,
  reportedPercents,
  type TrafficBudget,
  type TrafficBudgetEvent,
  type TrafficBudgetReached,
  trafficBudgetIdOf,
} from '../../domain/plans/traffic-budgets.ts'
import { isTimeZone } from '../../kernel/calendar.ts'
import { column, nullable, type RowOf, readTable } from '../../platform/projections/read-model.ts'
import { plansTable } from './fulfilment-invariants.ts'
import { type Context, invariant, type Recorded, recordedMs, rowKey, subjectOf } from './invariant.ts'

type ReachedPart = Pick<TrafficBudgetReached['data'], 'countedFrom' | 'percent' | 'limitBytes'> & {
  readonly timeZone: string
}

const budgetsTable = readTable({
  name: 'audit_traffic_budgets',
  columns: {
    budgetId: column.text(),
    budget: column.jsonb<TrafficBudget>(),
    isSet: column.boolean(),
    /** The last reported part; null: none. */
    reached: nullable(column.jsonb<ReachedPart>()),
  },
  key: ['budgetId'],
})
type BudgetRow = RowOf<typeof budgetsTable>

type OfSetBudget = Recorded<Exclude<TrafficBudgetEvent['type'], 'TrafficBudgetSet'>>

const targetFields = [
  'scope',
  'planId',
  'lineSet',
  'whitelistEntryId',
  'customerId',
  'period',
] as const satisfies readonly (keyof BudgetTarget)[]

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
      if (row?.isSet && row.budget.limitBytes === limitBytes && row.budget.timeZone === timeZone)
        report('budget-unchanged', 'the traffic budget has these terms already')
      return {
        budgetId,
        budget,
        isSet: true,
        reached: row?.reached ?? null,
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
      const { percent, usedBytes, limitBytes, countedFrom, countedUntil } = event.data
      const { budget, reached } = row
      const { timeZone } = budget
      if (targetFields.some((name) => event.data[name] !== budget[name]) || limitBytes !== budget.limitBytes)
        report('reached-of-another', 'target or limit are not those of the traffic budget')
      if (!(reportedPercents as readonly number[]).includes(percent))
        report('reached-percent', `${percent} % is not reported`)
      if (usedBytes * 100 < limitBytes * percent)
        report('reached-early', `${usedBytes} bytes are less than ${percent} % of ${limitBytes}`)
      if (Date.parse(countedFrom) > recordedMs(event))
        report('reached-future', `the count begins at ${countedFrom}, after the event`)
      if (countedUntil <= countedFrom)
        report('reached-span', `the count ends at ${countedUntil}, before it begins at ${countedFrom}`)
      if (
        reached?.countedFrom === countedFrom &&
        reached.limitBytes === limitBytes &&
        reached.timeZone === timeZone &&
        percent <= reached.percent
      )
        report('reached-twice', `${reached.percent} % were reported before`)
      return { ...row, reached: { countedFrom, percent, limitBytes, timeZone } }
    },
  },
})
