export { currentSpan, TrafficBudgetRecord, trafficBudgetExample } from './budget-record.ts'
export {
  createTrafficBudgets,
  maxLimitBytes,
  maxPlanBudgets,
  minLimitBytes,
  type TrafficBudgetInput,
  type TrafficBudgets,
} from './budgets.ts'
