import {
  createAppendOrder,
  createPlaceOrder,
  type OrderRequest,
  type PlaceOrder,
} from '../../src/features/orders/place-order.ts'
import type { Prepared } from '../../src/features/orders/prepare-order.ts'
import { type OrderId, orderIdOf } from '../../src/kernel/ids.ts'
import type { CommandRunner } from '../../src/platform/commands/command.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'

/** Places orders that are quoted already, so that neither a catalogue nor customers are needed. */
export const createPlaceOrderOf = (dependencies: {
  readonly log: EventLog
  readonly runner: CommandRunner
}): PlaceOrder =>
  createPlaceOrder({
    ...dependencies,
    appendOrder: createAppendOrder(dependencies),
    prices: undefined as never,
    customers: undefined as never,
    payPages: null,
  })

/** Places the order that `quoted` makes of the id which follows from the key. */
export const createPlaceQuoted = (dependencies: Parameters<typeof createPlaceOrderOf>[0]) => {
  const placeOrder = createPlaceOrderOf(dependencies)
  return (
    request: Omit<OrderRequest, 'item'> & { readonly idempotencyKey: string },
    quoted: (orderId: OrderId) => Prepared,
  ) => {
    const orderId = orderIdOf(request.caller.accountId, request.idempotencyKey)
    return placeOrder({ ...request, item: { kind: 'quoted', order: quoted(orderId) } })
  }
}
