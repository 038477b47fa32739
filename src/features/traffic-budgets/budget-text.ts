import type { BudgetTarget } from '../../domain/plans/traffic-budgets.ts'

/** The page of a budget, or of a form below it. */
export const budgetPath = (budgetId: string, end = ''): string => `/console/traffic-budgets/${budgetId}${end}`

/** What a budget limits, in words. */
export const targetText = ({
  scope,
  planId,
  lineSet,
  whitelistEntryId,
  customerId,
}: Omit<BudgetTarget, 'period'>): string => {
  switch (scope) {
    case 'plan':
      return `the plan ${planId}`
    case 'line_set':
      return `the line set ${lineSet} of the plan ${planId}`
    case 'whitelist_entry':
      return `the whitelist entry ${whitelistEntryId} of the plan ${planId}`
    case 'customer':
      return `all plans of the customer ${customerId}`
    default:
      return scope satisfies never
  }
}
