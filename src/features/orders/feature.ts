import type { ReadDatabase } from '../../../projections/database.ts'
import type { DepositPagesDatabase } from '../../../projections/other-tables.ts'
import type { LiveStock } from '../../domain/catalog/availability.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { TermsOf } from '../../domain/catalog/pricing.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createKysely } from '../../platform/postgres/kysely.ts'
import type { Customers } from '../accounts/index.ts'
import { createOrderable } from '../catalog/index.ts'
import type { Deposits } from '../deposits/index.ts'
import type { Gateways } from '../payments/index.ts'
import { createCompletion, startCompletionReactor } from './complete-orders.ts'
import { createCustomerInvoices } from './customer-invoices.ts'
import { startAwaitingReactor } from './place-paid-orders.ts'
import { createOrderService, type OrderService } from './place-order.ts'
import { orderRoutes } from './routes.ts'

export const open = (
  core: ServerCore,
  needs: {
    readonly catalog: { current(): Catalog }
    readonly stock: LiveStock
    readonly termsOf: TermsOf
    readonly customers: Customers
    readonly deposits: Deposits
    readonly gateways: Gateways
    /** Where a payer lands: the reseller's own place for its customers, else the service's. */
    readonly returnUrlOf: (reseller: AccountId | null) => Promise<string>
  },
): Feature & { readonly orders: OrderService } => {
  const { pool, clock, logger, reads, runner } = core
  const complete = createCompletion(core)
  const orders = createOrderService({
    ...core,
    complete,
    customerInvoices: createCustomerInvoices({ ...core, ...needs }),
  })
  const db = createKysely<ReadDatabase & DepositPagesDatabase>(pool)
  return {
    orders,
    routes: orderRoutes({ ...needs, orders, reads, db, pool, clock }),
    workers: [
      () => startCompletionReactor({ pool, complete, clock, logger }),
      () => startAwaitingReactor({ ...core, orderable: createOrderable(runner) }),
    ],
  }
}
