import { z } from 'zod'
import type { TrafficBudgetRow } from '../../../projections/traffic-budgets.ts'
import { budgetPeriods } from '../../domain/plans/budget-periods.ts'
import { budgetScopes, countedSpan } from '../../domain/plans/traffic-budgets.ts'
import { isoTime } from '../../kernel/clock.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { customerField, customerIdField } from '../accounts/index.ts'

const instant = z.string().meta({ format: 'date-time' })
const bytes = z.int().min(0)

/** A traffic budget with its use in the current period. */
export const TrafficBudgetRecord = z
  .object({
    id: z.string(),
    scope: namedEnum('TrafficBudgetScope', budgetScopes).meta({
      description:
        'What the budget limits: all lines of a plan, the lines of one set, the connections of one entry of the whitelist, or all plans of a customer.',
    }),
    planId: z.string().nullable().meta({ description: 'Null: all plans of the customer.' }),
    lineSet: z
      .string()
      .nullable()
      .meta({ description: 'The id of the set, as `-set-` in the usernames of its lines. Null: no set.' }),
    whitelistEntryId: z
      .string()
      .nullable()
      .meta({ description: 'The id of the entry of the whitelist. Null: no entry.' }),
    customerId: customerIdField,
    customer: customerField,
    period: namedEnum('TrafficBudgetPeriod', budgetPeriods).meta({ description: 'A week begins on Monday.' }),
    timeZone: z.string().meta({ description: 'The time zone of the periods (IANA).' }),
    limitBytes: z
      .int()
      .meta({ description: 'The maximum traffic of a period in both directions, in bytes.' }),
    usedBytes: bytes.meta({ description: 'The traffic since `countedFrom` in both directions, in bytes.' }),
    remainingBytes: bytes,
    countedFrom: instant.meta({
      description:
        'The start of the period, or later: when the budget or its time zone was set, or the last reset.',
    }),
    resetsAt: instant.meta({ description: 'The start of the next period.' }),
    createdAt: instant,
  })
  .meta({ id: 'TrafficBudget' })
export type TrafficBudgetRecord = z.infer<typeof TrafficBudgetRecord>

export const trafficBudgetExample: TrafficBudgetRecord = {
  id: 'tbg_3b9e5d0c1f2a5b6c8d7e9f0a1b2c3d4e',
  scope: 'plan',
  planId: 'pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10',
  lineSet: null,
  whitelistEntryId: null,
  customerId: null,
  customer: null,
  period: 'day',
  timeZone: 'Europe/Berlin',
  limitBytes: 5_000_000_000,
  usedBytes: 1_200_000_000,
  remainingBytes: 3_800_000_000,
  countedFrom: '2026-11-20T23:00:00.000Z',
  resetsAt: '2026-11-21T23:00:00.000Z',
  createdAt: '2026-11-01T09:12:00.000Z',
}

/** The current period of a budget, or its part after a reset. */
export const currentSpan = (
  { period, timeZone, resetAt }: Pick<TrafficBudgetRow, 'period' | 'timeZone' | 'resetAt'>,
  nowMs: number,
) => countedSpan({ period, timeZone }, Date.parse(resetAt), nowMs)

export const trafficBudgetRecord = (
  row: TrafficBudgetRow,
  context: {
    /** Since the start of `currentSpan`. */
    readonly usedBytes: number
    readonly nowMs: number
    /** The reseller's own id of the budget's customer. */
    readonly customer: string | null
  },
): TrafficBudgetRecord => {
  const { fromMs, toMs } = currentSpan(row, context.nowMs)
  return {
    id: row.budgetId,
    scope: row.scope,
    planId: row.planId,
    lineSet: row.lineSet,
    whitelistEntryId: row.whitelistEntryId,
    customerId: row.customerId,
    customer: context.customer,
    period: row.period,
    timeZone: row.timeZone,
    limitBytes: row.limitBytes,
    usedBytes: context.usedBytes,
    remainingBytes: Math.max(0, row.limitBytes - context.usedBytes),
    countedFrom: isoTime(fromMs),
    resetsAt: isoTime(toMs),
    createdAt: row.createdAt,
  }
}
