import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { Customers } from '../accounts/index.ts'
import { createFindPlan, createPlanVerifier } from '../plans/index.ts'
import { createTrafficBudgets, type TrafficBudgets } from './budgets.ts'
import { startBudgetSweep } from './reached.ts'
import { trafficBudgetRoutes } from './routes.ts'

// For the list of workers (src/app/worker-list.ts).
export { budgetSweep } from './reached.ts'

export const open = (
  core: ServerCore,
  { customers }: { readonly customers: Customers },
): Feature & { readonly trafficBudgets: TrafficBudgets } => {
  const { db, reads } = core
  const planOf = createFindPlan({ db, reads, verifyPlans: createPlanVerifier(core) })
  const trafficBudgets = createTrafficBudgets({ ...core, planOf })
  return {
    trafficBudgets,
    routes: trafficBudgetRoutes({ trafficBudgets, customers, reads }),
    workers: [() => startBudgetSweep(core)],
  }
}
