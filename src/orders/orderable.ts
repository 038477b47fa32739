import { accepted } from '../catalog/api-error.ts'
import { productOfOrder } from '../catalog/catalog.ts'
import { createCatalogService } from '../catalog/service.ts'
import type { CommandRunner } from '../eventstore/commands/command.ts'
import type { Actor } from '../eventstore/event.ts'
import type { OrderDetails } from './details.ts'

type Asking<Answer> = (
  order: Pick<OrderDetails, 'productId'>,
  cause: { readonly actor: Actor; readonly correlationId: string },
) => Promise<Answer>

/** Whether the product of an order can be ordered just now: it is neither parked nor retired. */
export type Orderable = Asking<boolean>

/** Asks the log, so that every role can ask, and that a product that was parked a moment ago is. */
export const createOrderable = (runner: CommandRunner): Orderable => {
  const catalog = createCatalogService(runner)
  return async ({ productId }, { actor, correlationId }) =>
    (await catalog.read({ actor, correlationId })).resolve(productId)?.state === 'active'
}

/** The same for a client that is answered. @throws ApiError product_unavailable, with the product's successor */
export type RequireOrderable = Asking<void>

export const createRequireOrderable = (runner: CommandRunner): RequireOrderable => {
  const catalog = createCatalogService(runner)
  return async ({ productId }, { actor, correlationId }) => {
    accepted(productOfOrder(await catalog.read({ actor, correlationId }), productId))
  }
}
