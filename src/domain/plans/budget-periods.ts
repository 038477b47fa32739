export const budgetPeriods = ['day', 'week', 'month'] as const
export type BudgetPeriod = (typeof budgetPeriods)[number]
