import { createCatalogService } from '../catalog/service.ts'
import type { CommandRunner } from '../eventstore/commands/command.ts'
import type { Actor } from '../eventstore/event.ts'
import type { OrderDetails } from './details.ts'

/** Whether the product of an order can be ordered just now: it is neither parked nor retired. */
export type Orderable = (
  order: OrderDetails,
  cause: { readonly actor: Actor; readonly correlationId: string },
) => Promise<boolean>

/** Asks the log, so that every role can ask, and that a product that was parked a moment ago is. */
export const createOrderable = (runner: CommandRunner): Orderable => {
  const catalog = createCatalogService(runner)
  return async ({ productId }, { actor, correlationId }) =>
    (await catalog.read({ actor, correlationId })).resolve(productId)?.state === 'active'
}
