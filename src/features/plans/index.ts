export { createMeter, type Meter } from './meter-traffic.ts'
export { createOwnPlans, type OwnPlans } from './plan-owners.ts'
export { backToPlan, type PlanFinder, planCall, planPath } from './plan-pages.ts'
export {
  connectionOf,
  createOwnPlan,
  type Gateway,
  type OwnPlan,
  PlanRecord,
  planExample,
  planStatus,
} from './plan-record.ts'
export { rotatePlanPassword } from './routes.ts'
export type { TrafficReports } from './traffic-reports.ts'
