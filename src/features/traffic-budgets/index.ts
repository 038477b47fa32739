export { maxLimitBytes, minLimitBytes } from './budget-limits.ts'
export { budgetMails } from './budget-mails.ts'
export { currentSpan, TrafficBudgetRecord, trafficBudgetExample } from './budget-record.ts'
export {
  createTrafficBudgets,
  maxPlanBudgets,
  type TrafficBudgetInput,
  type TrafficBudgets,
} from './budgets.ts'
