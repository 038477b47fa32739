import { decode } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import { orderStream } from '../eventstore/streams.ts'
import type { OrderId } from '../ids.ts'
import type { OrderEvent } from './events.ts'
import { type Order, orderAfter } from './fold.ts'

/** An order as its stream tells it now, or null. */
export const readOrder = async (log: EventLog, orderId: OrderId): Promise<Order | null> => {
  const events: OrderEvent[] = []
  for await (const stored of log.readStream(orderStream(orderId))) events.push(decode(stored) as OrderEvent)
  return events.length === 0 ? null : orderAfter(null, events)
}
