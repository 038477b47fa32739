import type { LiveStock } from '../../domain/catalog/availability.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { RefreshTerms, TermsOf } from '../../domain/catalog/pricing.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { Customers } from '../accounts/index.ts'
import { createOrderable, type Quotes } from '../catalog/index.ts'
import { createDepositPages, type Deposits } from '../deposits/index.ts'
import type { JournalHead } from '../finance/index.ts'
import type { Gateways } from '../payments/index.ts'
import type { ReadBalance } from '../wallet/index.ts'
import { createCancelOrder } from './cancel-order.ts'
import { cataloguePages } from './catalogue-pages.ts'
import { createCompletion, startCompletionReactor } from './complete-orders.ts'
import { createCustomerInvoices } from './customer-invoices.ts'
import { orderAdminPages } from './order-admin-pages.ts'
import { orderPages } from './order-pages.ts'
import { createPayPages } from './pay-pages.ts'
import { createAppendOrder, createPlaceOrder, type PlaceOrder } from './place-order.ts'
import { startAwaitingReactor } from './place-paid-orders.ts'
import { type RefundDependencies, type RefundOrder, refundOrder } from './refund-order.ts'
import { orderRoutes } from './routes.ts'

// For the list of workers (src/app/worker-list.ts).
export { completion } from './complete-orders.ts'
export { awaitingOrders } from './place-paid-orders.ts'

export const open = (
  core: ServerCore,
  dependencies: {
    readonly catalog: { current(): Catalog }
    readonly stock: LiveStock
    readonly termsOf: TermsOf
    readonly refreshTerms: RefreshTerms
    readonly quotes: Quotes
    readonly readBalance: ReadBalance
    readonly journalHead: JournalHead
    /** Writes a plan's counted traffic to the log before its order is refunded. */
    readonly settleTraffic: RefundDependencies['settleTraffic']
    readonly customers: Customers
    readonly deposits: Deposits
    readonly gateways: Gateways
    /** The return page of payers: the reseller's page for its customers, else the service's. */
    readonly returnUrlOf: (reseller: AccountId | null) => Promise<string>
  },
): Feature & { readonly placeOrder: PlaceOrder } => {
  const { pool, db, log, clock, reads, runner } = core
  const { catalog, stock, quotes, readBalance, settleTraffic } = dependencies
  const complete = createCompletion(core)
  const appendOrder = createAppendOrder(core)
  const customerInvoices = createCustomerInvoices({ ...core, ...dependencies })
  const placeOrder = createPlaceOrder({
    ...core,
    appendOrder,
    prices: dependencies,
    customers: dependencies.customers,
    payPages: createPayPages({ ...core, appendOrder, customerInvoices }),
  })
  const cancelOrder = createCancelOrder({ ...core, ...dependencies })
  const refund: RefundOrder = (refundRequest) => refundOrder({ log, runner, settleTraffic }, refundRequest)
  const { payUrlOf } = createDepositPages(core)
  return {
    placeOrder,
    routes: orderRoutes({ ...dependencies, log, placeOrder, cancelOrder, reads, db, pool, clock, payUrlOf }),
    pages: [
      ...cataloguePages({ catalog, stock, reads, quotes, placeOrder, readBalance }),
      ...orderPages({ db, pool, reads, log, catalog, payUrlOf, cancelOrder }),
      ...orderAdminPages({ ...core, ...dependencies, refundOrder: refund }),
    ],
    workers: [
      () => startCompletionReactor({ ...core, complete }),
      () => startAwaitingReactor({ ...core, ...dependencies, orderable: createOrderable(runner) }),
    ],
  }
}
