import { createLiveStock } from '../../projections/live-stock.ts'
import { createCompletion } from '../market/orders/completion.ts'
import { createOrderService } from '../market/orders/service.ts'
import { createMeter } from '../market/plans/metering.ts'
import { type RenewalDeps, startRenewals } from '../market/subscriptions/reactor.ts'
import { createRenewals } from '../market/subscriptions/renewals.ts'
import { createSubscriptions } from '../market/subscriptions/service.ts'
import type { Poller } from '../platform/work/poller.ts'
import type { Core } from './core.ts'
import type { LivePrices } from './live-prices.ts'

/** What renewals need. They read the prices when something is due, for they run without the HTTP server too. */
export const renewalsOf = (core: Core, prices: LivePrices): RenewalDeps => {
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
  return {
    ...core,
    subscriptions,
    renewals: createRenewals({ ...core, orders, market, subscriptions }),
    refresh: prices.refresh,
  }
}

/** The renewals. */
export const startSubscriptions = (core: Core, prices: LivePrices): Poller =>
  startRenewals({ ...renewalsOf(core, prices), pool: core.pool })
