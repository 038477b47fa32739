import type { OrderId } from '../../kernel/ids.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { RecordedEvent } from '../../platform/eventstore/event.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { orderStream } from '../../terms/streams.ts'
import type { OrderEvent } from './events.ts'
import { type Order, type OrderState, orderFold } from './fold.ts'

/** An order as its stream tells it now, or null. */
export const readOrder = async (log: EventLog, orderId: OrderId): Promise<Order | null> => {
  let order: OrderState = orderFold.initial
  for await (const stored of log.readStream(orderStream(orderId))) {
    const { type, data, revision, metadata } = decode(stored) as RecordedEvent<OrderEvent>
    const fact = { type, data, revision, recordedAtMs: Date.parse(metadata.recordedAt) }
    order = orderFold.evolve(order, fact as Parameters<typeof orderFold.evolve>[1])
  }
  return order
}
