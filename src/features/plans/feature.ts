import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { RefreshTerms, TermsOf } from '../../domain/catalog/pricing.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createCredentials } from '../../platform/vault/credentials.ts'
import type { Customers } from '../accounts/index.ts'
import type { Quotes } from '../catalog/index.ts'
import type { PlaceOrder } from '../orders/index.ts'
import type { ReadBalance } from '../wallet/index.ts'
import { createMeter, type Meter, startTrafficSweep } from './meter-traffic.ts'
import { createPlanFinder, type PlanFinder, planPages } from './plan-pages.ts'
import type { Gateway } from './plan-record.ts'
import { createPlanVerifier } from './plan-record.ts'
import { planUsageRoutes } from './plan-usage-routes.ts'
import { planRoutes } from './routes.ts'
import { trafficPages } from './traffic-pages.ts'
import { startRecordRetention } from './traffic-retention.ts'
import { trafficRoutes } from './traffic-routes.ts'

// For the list of workers (src/app/worker-list.ts).
export { trafficSweep } from './meter-traffic.ts'
export { recordRetention } from './traffic-retention.ts'

export const open = (
  core: ServerCore,
  dependencies: {
    /** The address that clients connect to. */
    readonly gateway: Gateway
    /** How many days traffic records are retained; 0: not at all. */
    readonly recordDays: number
    readonly catalog: { current(): Catalog }
    readonly termsOf: TermsOf
    readonly refreshTerms: RefreshTerms
    readonly customers: Customers
    readonly quotes: Quotes
    readonly placeOrder: PlaceOrder
    readonly readBalance: ReadBalance
  },
): Feature & { readonly meter: Meter; readonly planFinder: PlanFinder } => {
  const { scheduler, pool, db, clock, reads } = core
  const { gateway, recordDays, catalog, quotes, placeOrder, readBalance } = dependencies
  const meter = createMeter(core)
  const verifyPlans = createPlanVerifier(core)
  const planFinder = createPlanFinder({ db, reads, verifyPlans, catalog })
  const credentials = createCredentials(core.keys.master)
  return {
    meter,
    planFinder,
    routes: [
      ...planRoutes({ ...dependencies, log: core.log, reads, db, verifyPlans, pool, credentials, clock }),
      ...planUsageRoutes({ pool, db, verifyPlans, reads, clock }),
      ...trafficRoutes({ pool, db, verifyPlans, reads, clock }),
    ],
    pages: [
      ...planPages({ planFinder, db, reads, catalog, pool, gateway, quotes, placeOrder, readBalance }),
      ...trafficPages({ planFinder, pool, recordDays }),
    ],
    workers: [
      () => startTrafficSweep({ scheduler, meter, clock }),
      () => startRecordRetention({ scheduler, pool, clock, days: recordDays }),
    ],
  }
}
