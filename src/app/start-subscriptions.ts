import { createLiveStock } from '../../projections/live-stock.ts'
import { createCompletion } from '../market/orders/completion.ts'
import { createOrderService } from '../market/orders/service.ts'
import { createMeter } from '../market/plans/metering.ts'
import { startRenewals } from '../market/subscriptions/reactor.ts'
import { createRenewals } from '../market/subscriptions/renewals.ts'
import { createSubscriptions } from '../market/subscriptions/service.ts'
import type { Poller } from '../platform/work/poller.ts'
import type { Core } from './core.ts'
import type { LivePrices } from './live-prices.ts'

/** The renewals. They read the prices when something is due, for they run without the HTTP server too. */
export const startSubscriptions = (core: Core, prices: LivePrices): Poller => {
  const { pool, clock } = core
  const orders = createOrderService({ ...core, complete: createCompletion(core), hosted: null })
  const market = {
    catalog: prices.catalog,
    stock: createLiveStock({ pool, clock }),
    termsOf: prices.terms.termsOf,
  }
  const subscriptions = createSubscriptions({
    ...core,
    orders,
    market,
    settleTraffic: createMeter(core).settle,
  })
  return startRenewals({
    ...core,
    subscriptions,
    renewals: createRenewals({ ...core, orders, market, subscriptions }),
    refresh: prices.refresh,
  })
}
