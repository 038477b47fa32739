import { deriveId, type OrderId } from '../../../kernel/ids.ts'
import type { OrderEvent } from '../../../market/orders/events.ts'
import { orderAfter } from '../../../market/orders/fold.ts'
import { orderRecord } from '../../../market/orders/record.ts'
import { decode } from '../../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../../platform/eventstore/port.ts'
import type { StreamName } from '../../../terms/streams.ts'
import { deliveryStream, orderStream } from '../../../terms/streams.ts'
import type { WebhookEnqueued } from '../events.ts'
import type { Wanted } from './step.ts'
import { type WriteFact, writeFacts } from './write-facts.ts'

/** The one delivery of an event and resource to an endpoint; also what receivers de-duplicate on as `webhook-id`. */
export const deliveryIdOf = (endpointId: string, event: string, resource: string): string =>
  deriveId('dlv', [endpointId, event, resource])

/** The payload of `order.*`: the order as it was right after the fact (spec.md, "Payloads"). */
const orderData = (
  wanted: Wanted,
  throughRevision: number,
  stored: readonly StoredEvent[],
): Readonly<Record<string, unknown>> => {
  const facts = stored
    .filter(({ revision }) => revision <= throughRevision)
    .map((event) => decode(event) as unknown as OrderEvent)
  const order = orderAfter(null, facts)
  const record = orderRecord(order, false)
  return {
    orderId: record.orderId,
    status: record.status,
    productId: record.productId,
    quantity: record.quantity,
    amountCents: record.amountCents,
    currency: record.currency,
    createdAt: record.createdAt,
    fulfilledAt: record.fulfilledAt,
    ...(wanted.event === 'order.failed' && { failureReason: record.failureReason }),
    ...(wanted.event === 'order.refunded' && {
      refundedAt: record.refundedAt,
      refundCents: record.refundedCents,
    }),
  }
}

const withData = async (
  log: EventLog,
  wanted: readonly Wanted[],
): Promise<readonly WebhookEnqueued['data'][]> => {
  const streams = new Set<StreamName>()
  for (const { data } of wanted) if (data.kind === 'order') streams.add(orderStream(data.orderId as OrderId))
  const orders =
    streams.size === 0
      ? new Map<StreamName, readonly StoredEvent[]>()
      : await log.readStreams([...streams].map((stream) => ({ stream, from: 0 })))
  return wanted.map((each) => {
    const { endpointId, accountId, event, resource, data } = each
    const content =
      data.kind === 'ready'
        ? data.data
        : orderData(each, data.throughRevision, orders.get(orderStream(data.orderId as OrderId)) ?? [])
    const deliveryId = deliveryIdOf(endpointId, event, resource)
    return { deliveryId, endpointId, accountId, event, resource, data: content }
  })
}

/** Puts what is wanted into the log, each on its own stream with `noStream`: what is there already stays alone. */
export const enqueue = async (log: EventLog, wanted: readonly Wanted[], nowMs: number): Promise<void> => {
  if (wanted.length === 0) return
  const datas = await withData(log, wanted)
  const writes = new Map<StreamName, WriteFact>()
  for (const [index, data] of datas.entries()) {
    const { cause } = wanted[index]!
    const stream = deliveryStream(data.endpointId, data.event, data.resource)
    if (writes.has(stream)) continue
    writes.set(stream, {
      stream,
      expected: 'noStream',
      fact: { type: 'WebhookEnqueued', data },
      correlationId: cause.correlationId,
      causationId: cause.id,
      atMs: Math.max(nowMs, cause.recordedAtMs),
    })
  }
  await writeFacts(log, [...writes.values()])
}
