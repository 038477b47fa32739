import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { Mailer } from '../../platform/outgoing/mailer.ts'
import type { Accounts, Customers } from '../accounts/index.ts'
import type { Whitelist } from '../lines/index.ts'
import { createFindPlan, createPlanVerifier, type PlanFinder } from '../plans/index.ts'
import { startBudgetMails } from './budget-mails.ts'
import { budgetPages } from './budget-pages.ts'
import { createTrafficBudgets, type TrafficBudgets } from './budgets.ts'
import { startBudgetSweep } from './reached.ts'
import { trafficBudgetRoutes } from './routes.ts'

// For the list of workers (src/app/worker-list.ts).
export { budgetMailWorker } from './budget-mails.ts'
export { budgetSweep } from './reached.ts'

export const open = (
  core: ServerCore,
  dependencies: {
    readonly accounts: Accounts
    readonly customers: Customers
    readonly planFinder: PlanFinder
    readonly whitelist: Pick<Whitelist, 'list'>
    /** Null: no mail is sent. */
    readonly mailer: Mailer | null
    /** The name of the service in its mails. */
    readonly name: string
    /** The origin of the console. */
    readonly origin: () => string
  },
): Feature & { readonly trafficBudgets: TrafficBudgets } => {
  const { db, reads } = core
  const { customers } = dependencies
  const planOf = createFindPlan({ db, reads, verifyPlans: createPlanVerifier(core) })
  const trafficBudgets = createTrafficBudgets({ ...core, planOf })
  return {
    trafficBudgets,
    pages: budgetPages({ ...core, ...dependencies, trafficBudgets, planOf }),
    routes: trafficBudgetRoutes({ trafficBudgets, customers, reads }),
    workers: [
      () => startBudgetSweep(core),
      ({ workers }) => startBudgetMails({ ...core, ...dependencies, workers }),
    ],
  }
}
