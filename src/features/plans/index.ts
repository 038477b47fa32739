export { createMeter, type Meter } from './meter-traffic.ts'
export { isBudgetDue } from './migrations.ts'
export { backToPlan, type PlanFinder, planCall, planLeft, planPath } from './plan-pages.ts'
export {
  connectionOf,
  createFindPlan,
  createPlanVerifier,
  type FindPlanDependencies,
  type Gateway,
  PlanRecord,
  planExample,
  planStatus,
  type VerifiedPlan,
  type VerifyPlans,
} from './plan-record.ts'
export { rotatePlanPassword } from './routes.ts'
export type { BudgetedTraffic, TrafficReports } from './traffic-counters.ts'
