import { counted } from '../../kernel/counted.ts'
import { actorText, type RecordedEvent } from '../../platform/eventstore/event.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import { positionToken } from '../../terms/position.ts'
import { amountWriter } from './amounts.ts'
import type { Explanation, Link } from './explain.ts'
import { orderIn } from './explain-terms.ts'
import { accountText } from './gateway-names.ts'

const dollars = amountWriter([])
const centsText = (cents: number): string => `$${dollars(BigInt(cents) * 10_000n)}`

/** What was ordered and how it was priced. */
export const orderText = (order: OrderDetails): string =>
  [
    `${order.kind} of ${order.quantity} ${order.unit} ${order.productId} for ${centsText(order.amountCents)}`,
    `unit price ${centsText(order.unitPriceCents)}`,
    `list price ${centsText(order.listCents)}`,
    ...(order.costCents === undefined ? [] : [`cost ${centsText(order.costCents)}`]),
    ...(order.customerId === null ? [] : [`customer ${order.customerId}`]),
  ].join(', ')

/** The plain fields of a fact: names and values, as they stand in the event. */
export const factsText = (event: RecordedEvent): string =>
  Object.entries(event.data as Record<string, unknown>)
    .filter(([, value]) => value !== null && typeof value !== 'object')
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')

const linkText = ({ event, postings }: Link): string => {
  const { actor, correlationId, causationId, recordedAt } = event.metadata
  const order = orderIn(event)
  const write = amountWriter(postings.map(({ amountMicros }) => amountMicros))
  return [
    `${positionToken(event.position)}  ${event.type}  ${event.stream} revision ${event.revision}`,
    `    at ${recordedAt} by ${actorText(actor)}, through ${correlationId}${causationId === null ? '' : `, answering event ${causationId}`}`,
    `    ${[order && orderText(order), factsText(event)].filter((text) => text).join('; ')}`,
    ...postings.map(
      ({ book, account, gateway, amountMicros }) =>
        `    ${amountMicros > 0n ? 'debit ' : 'credit'} ${write(amountMicros < 0n ? -amountMicros : amountMicros)}  ${accountText(account, gateway)}  (${book})`,
    ),
  ].join('\n')
}

/** The chain, one event under the other, and the terms with who set them. */
export const explanationText = ({ chain, terms, leftOut }: Explanation): string =>
  [
    ...(leftOut === 0 ? [] : [`${counted(leftOut, 'more event')} left out: --limit shows more`]),
    ...chain.map(linkText),
    ...(terms.length === 0 ? [] : ['on these terms:']),
    ...terms.map(
      ({ what, event }) =>
        `    ${what}: ${event.type} at position ${positionToken(event.position)}, ${event.metadata.recordedAt}, by ${actorText(event.metadata.actor)}, through ${event.metadata.correlationId}`,
    ),
  ].join('\n')

const eventJson = (event: RecordedEvent) => ({
  position: positionToken(event.position),
  eventId: event.id,
  type: event.type,
  stream: event.stream,
  revision: event.revision,
  recordedAt: event.metadata.recordedAt,
  actor: actorText(event.metadata.actor),
  correlationId: event.metadata.correlationId,
  causationId: event.metadata.causationId,
})

export const explanationJson = ({ chain, terms, leftOut }: Explanation) => ({
  leftOut,
  chain: chain.map(({ event, postings }) => ({
    ...eventJson(event),
    data: event.data,
    postings: postings.map((posting) => ({ ...posting, amountMicros: String(posting.amountMicros) })),
  })),
  // The whole catalogue stands in one event: who set a term is told, not all that was set.
  terms: terms.map(({ what, event }) => ({ what, ...eventJson(event) })),
})
