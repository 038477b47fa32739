import { createLiveStock } from '../../projections/live-stock.ts'
import { createLiveCatalog } from '../catalog/live.ts'
import type { Core } from '../core.ts'
import { createCompletion } from '../orders/completion.ts'
import { createOrderService } from '../orders/service.ts'
import { createMeter } from '../plans/metering.ts'
import type { Poller } from '../poller.ts'
import { createLiveTerms } from '../resellers/live.ts'
import { startRenewals } from './reactor.ts'
import { createRenewals } from './renewals.ts'
import { createSubscriptions } from './service.ts'

/** The renewals with prices and terms of their own, read when something is due: they run without the HTTP server too. */
export const startSubscriptions = (core: Core): Poller => {
  const { pool, clock, logger } = core
  const catalog = createLiveCatalog({ pool, logger })
  const terms = createLiveTerms({ pool, logger })
  const orders = createOrderService({ ...core, complete: createCompletion(core), hosted: null })
  const market = { catalog, stock: createLiveStock({ pool, clock }), termsOf: terms.termsOf }
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
    refresh: async () => {
      await terms.refresh()
      await catalog.refresh()
    },
  })
}
