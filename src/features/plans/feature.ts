import type { PlanQueries } from '../../../projections/plans.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { TermsOf } from '../../domain/catalog/pricing.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createKysely } from '../../platform/postgres/kysely.ts'
import { createCredentials } from '../../platform/vault/credentials.ts'
import type { Customers } from '../accounts/index.ts'
import type { OrderService } from '../orders/index.ts'
import { createMeter, type Meter, startTrafficSweep } from './meter-traffic.ts'
import type { Gateway } from './plan-record.ts'
import { planUsageRoutes } from './plan-usage-routes.ts'
import { planRoutes } from './routes.ts'

export const open = (
  core: ServerCore,
  needs: {
    /** Where clients connect to. */
    readonly gateway: Gateway
    readonly orders: OrderService
    readonly catalog: { current(): Catalog }
    readonly termsOf: TermsOf
    readonly customers: Customers
  },
): Feature & { readonly meter: Meter } => {
  const { pool, clock, logger, reads } = core
  const meter = createMeter(core)
  const db: PlanQueries = createKysely(pool)
  const credentials = createCredentials(core.keys.master)
  return {
    meter,
    routes: [
      ...planRoutes({ ...needs, reads, db, pool, credentials, clock }),
      ...planUsageRoutes({ pool, db, reads, clock }),
    ],
    workers: [() => startTrafficSweep({ meter, clock, logger })],
  }
}
