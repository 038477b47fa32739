import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { PlaceOrder, PriceSources } from '../orders/index.ts'
import type { Meter } from '../plans/index.ts'
import type { LivePrices } from '../resellers/index.ts'
import { renewalsOf, startRenewals } from './renewal-worker.ts'
import { subscriptionRoutes } from './routes.ts'
import { subscriptionPages } from './subscription-pages.ts'
import { createSubscriptions } from './subscription-service.ts'

// For the list of workers (src/app/worker-list.ts).
export { renewalWorker } from './renewal-worker.ts'

export const open = (
  core: ServerCore,
  dependencies: {
    readonly placeOrder: PlaceOrder
    readonly market: PriceSources
    readonly meter: Meter
    /** The prices that renewals refresh before they charge. */
    readonly prices: LivePrices
  },
): Feature => {
  const { scheduler, pool, db, log, clock, reads } = core
  const { placeOrder, market, meter, prices } = dependencies
  const subscriptions = createSubscriptions({ ...core, placeOrder, market, settleTraffic: meter.settle })
  return {
    routes: subscriptionRoutes({ subscriptions, catalog: market.catalog, log, reads, db, clock }),
    pages: subscriptionPages({ db, reads, log, catalog: market.catalog, subscriptions }),
    workers: [() => startRenewals({ ...renewalsOf(core, prices), scheduler, pool })],
  }
}
