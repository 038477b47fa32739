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
import { encode, timesAfter } from '../../platform/eventstore/codec.ts'
import { AppendRejected, LogUnavailable, OutcomeUnknown } from '../../platform/eventstore/errors.ts'
import type { AppendItem, EventLog, Expected, ItemOutcome } from '../../platform/eventstore/port.ts'

export type DeliveryRef = {
  readonly delivery_id: string
  readonly endpoint_id: string
  readonly event: string
  readonly resource: string
  /** Revision of the event that queued it. */
  readonly revision: number
}

/** Outcomes that the log has for deliveries whose outcome another process appended first. */
export const recordedOutcomes = async (
  log: Pick<EventLog, 'readStreams'>,
  deliveryRefs: readonly DeliveryRef[],
): Promise<ReadonlyMap<string, FinishedStatus>> => {
  if (deliveryRefs.length === 0) return new Map()
  const streamOf = (deliveryRef: DeliveryRef) =>
    deliveryStream(deliveryRef.endpoint_id, deliveryRef.event, deliveryRef.resource)
  const laterEvents = await log.readStreams(
    deliveryRefs.map((deliveryRef) => ({ stream: streamOf(deliveryRef), from: deliveryRef.revision + 1 })),
  )
  return new Map(
    deliveryRefs.flatMap((deliveryRef) => {
      const type = laterEvents.get(streamOf(deliveryRef))?.[0]?.type as DeliveryOutcome['type'] | undefined
      return type === undefined || !outcomeTypes.includes(type)
        ? []
        : [[deliveryRef.delivery_id, finishedStatus(type)] as const]
    }),
  )
}

/** Events in one `appendAll` call, the same limit as for the log's own batches. */
const maxItems = 200

const failures = { rejected: AppendRejected, unavailable: LogUnavailable, unknown: OutcomeUnknown } as const

/** Accepts an appended event and a conflict; the caller checks a conflict again. @throws for any other outcome */
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
  /** Default: the service itself. */
  readonly actor?: Actor
  readonly nowMs: number
  /** Time of the previous event in the stream; in a new stream, time of the cause. Milliseconds. */
  readonly afterMs: number
}

/**
 * A new stream has no earlier event, so a cause with a time in the future does not move its time further than
 * `maxAheadMs`.
 */
const timesOf = ({ expected, nowMs, afterMs }: EventAppend): ReturnType<typeof timesAfter> =>
  timesAfter(expected === 'noStream' ? Math.min(afterMs, nowMs + maxAheadMs) : afterMs, nowMs)

/**
 * Appends events to many streams at once. A conflict is returned as an outcome: another process appended there first.
 * @throws LogUnavailable, OutcomeUnknown, AppendRejected. Events that were appended before the error remain; repeating
 * the call conflicts there.
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
