import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import { accepted } from './api-error.ts'
import { productOfOrder } from './catalog.ts'
import type { Product } from './product.ts'
import type { Result } from './refusal.ts'
import { createCatalogService } from './service.ts'

type Asking<Answer> = (order: Pick<OrderDetails, 'productId'>, cause: Cause) => Promise<Answer>

/** Whether the product of an order can be ordered just now: it is neither parked nor retired. */
export type Orderable = Asking<boolean>

/** Asks the log, so that every role can ask, and that a product that was parked a moment ago is. */
const productNow = (runner: CommandRunner): Asking<Result<Product>> => {
  const catalog = createCatalogService(runner)
  return async ({ productId }, { actor, correlationId }) =>
    productOfOrder(await catalog.read({ actor, correlationId }), productId)
}

export const createOrderable = (runner: CommandRunner): Orderable => {
  const ask = productNow(runner)
  return async (order, cause) => (await ask(order, cause)).ok
}

/** The same for a client that is answered. @throws ApiError product_unavailable, with the product's successor */
export type RequireOrderable = Asking<void>

export const createRequireOrderable = (runner: CommandRunner): RequireOrderable => {
  const ask = productNow(runner)
  return async (order, cause) => {
    accepted(await ask(order, cause))
  }
}
