import type { OrderId } from '../../kernel/ids.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { readStreamState } from '../../platform/eventstore/read-state.ts'
import { type Order, orderRef } from './fold.ts'

/** An order as its stream tells it now, or null. */
export const readOrder = async (log: EventLog, orderId: OrderId): Promise<Order | null> =>
  (await readStreamState(log, orderRef(orderId))).state
