import {
  type DeliveryOutcome,
  type FinishedStatus,
  finishedStatus,
  outcomeTypes,
} from '../../domain/webhooks/events.ts'
import { maxAheadMs } from '../../kernel/clock.ts'
import type { Actor, DomainEvent, EventMetadata } from '../../kernel/event.ts'
import { newEventId } from '../../kernel/ids.ts'
import { deliveryStream, type StreamName } from '../../kernel/streams.ts'
import { encode } from '../../platform/eventstore/codec.ts'
import { AppendRejected, LogUnavailable, OutcomeUnknown } from '../../platform/eventstore/errors.ts'
import { timesAfter } from '../../platform/eventstore/event-times.ts'
import type { AppendItem, EventLog, Expected, ItemOutcome } from '../../platform/eventstore/port.ts'

export type DeliveryRef = {
  readonly delivery_id: string
  readonly endpoint_id: string
  readonly event: string
  readonly resource: string
  /** Of the fact that queued it. */
  readonly revision: number
}

/** What the log has as the outcome of deliveries whose outcome somebody else wrote first. */
export const recordedOutcomes = async (
  log: Pick<EventLog, 'readStreams'>,
  places: readonly DeliveryRef[],
): Promise<ReadonlyMap<string, FinishedStatus>> => {
  if (places.length === 0) return new Map()
  const streamOf = (place: DeliveryRef) => deliveryStream(place.endpoint_id, place.event, place.resource)
  const tails = await log.readStreams(
    places.map((place) => ({ stream: streamOf(place), from: place.revision + 1 })),
  )
  return new Map(
    places.flatMap((place) => {
      const type = tails.get(streamOf(place))?.[0]?.type as DeliveryOutcome['type'] | undefined
      return type === undefined || !outcomeTypes.includes(type)
        ? []
        : [[place.delivery_id, finishedStatus(type)] as const]
    }),
  )
}

/** Appends of one call; a cut that the log's own batches have too. */
const maxItems = 200

const failures = { rejected: AppendRejected, unavailable: LogUnavailable, unknown: OutcomeUnknown } as const

/** The outcome of a write that is looked at again after a conflict, or the error that ends the attempt. */
const assertWritten = (outcome: ItemOutcome): void => {
  if (outcome.status === 'landed' || outcome.status === 'conflict') return
  const { status, cause } = outcome
  throw new failures[status](`the log did not take a webhook event: ${cause.message}`, { cause })
}

export type EventAppend = {
  readonly stream: StreamName
  readonly expected: Expected
  readonly events: readonly DomainEvent[]
  readonly correlationId: string
  readonly causationId: string | null
  /** Left out: the service itself. */
  readonly actor?: Actor
  readonly nowMs: number
  /** Of what it follows in its stream; in a new stream, of its cause. */
  readonly afterMs: number
}

/** A new stream goes on from nothing: it does not carry on the time of a cause of the future. */
const timesOf = ({ expected, nowMs, afterMs }: EventAppend): ReturnType<typeof timesAfter> =>
  timesAfter(expected === 'noStream' ? Math.min(afterMs, nowMs + maxAheadMs) : afterMs, nowMs)

/**
 * Appends the facts of many streams at once. A conflict is an answer: somebody wrote there before.
 * @throws LogUnavailable, OutcomeUnknown, AppendRejected; what landed before stays, and writing again conflicts there
 */
export const appendEvents = async (
  log: EventLog,
  writes: readonly EventAppend[],
): Promise<readonly ItemOutcome[]> => {
  const outcomes: ItemOutcome[] = []
  for (let from = 0; from < writes.length; from += maxItems) {
    const items = writes.slice(from, from + maxItems).map((write): AppendItem => {
      const metadata: EventMetadata = {
        correlationId: write.correlationId,
        causationId: write.causationId,
        actor: write.actor ?? { kind: 'system', name: 'webhooks' },
        ...timesOf(write),
      }
      const events = write.events.map((fact) => encode(fact, metadata, newEventId()))
      return { appends: [{ stream: write.stream, expected: write.expected, events }] }
    })
    const written = await log.appendAll(items)
    for (const outcome of written) assertWritten(outcome)
    outcomes.push(...written)
  }
  return outcomes
}
