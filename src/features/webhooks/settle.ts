import type pg from 'pg'
import { type DeliveryOutcome, type FinishedStatus, finishedStatus } from '../../domain/webhooks/events.ts'
import { type Clock, isoTime, maxAheadMs } from '../../kernel/clock.ts'
import type { Actor, DomainEvent, EventMetadata } from '../../kernel/event.ts'
import { newEventId } from '../../kernel/ids.ts'
import { deliveryStream, type StreamName } from '../../kernel/streams.ts'
import { encode, timesAfter } from '../../platform/eventstore/codec.ts'
import { AppendRejected, LogUnavailable, OutcomeUnknown } from '../../platform/eventstore/errors.ts'
import type {
  AppendItem,
  EventLog,
  Expected,
  ItemOutcome,
  StoredEvent,
} from '../../platform/eventstore/port.ts'
import type { DueDelivery } from './delivery-queue.ts'
import type { Attempted } from './webhook-sender.ts'

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

export type DeliveryRef = {
  readonly delivery_id: string
  readonly endpoint_id: string
  readonly event: string
  readonly resource: string
  /** Revision and time of the event that queued it. */
  readonly revision: number
  readonly queued_at: string
}

/** The outcome of a delivery, as an event after the one that queued it. */
export const outcomeAppend = (
  delivery: DeliveryRef,
  outcome: DeliveryOutcome,
  cause: Pick<EventAppend, 'correlationId' | 'causationId'>,
  nowMs: number,
): EventAppend => ({
  ...cause,
  stream: deliveryStream(delivery.endpoint_id, delivery.event, delivery.resource),
  expected: delivery.revision,
  events: [outcome],
  nowMs,
  afterMs: Date.parse(delivery.queued_at),
})

/**
 * Appends outcomes of deliveries. If another process appended an outcome first, that outcome counts.
 * @returns the status of each delivery by its id
 * @throws as `appendEvents`
 */
export const appendOutcomes = async (
  log: EventLog,
  outcomes: readonly { readonly delivery: DeliveryRef; readonly append: EventAppend }[],
): Promise<ReadonlyMap<string, FinishedStatus>> => {
  const written = await appendEvents(
    log,
    outcomes.map(({ append }) => append),
  )
  const conflicting = outcomes.filter((_, index) => written[index]?.status === 'conflict')
  const laterEvents =
    conflicting.length === 0
      ? new Map<StreamName, readonly StoredEvent[]>()
      : await log.readStreams(
          conflicting.map(({ delivery, append }) => ({ stream: append.stream, from: delivery.revision + 1 })),
        )
  return new Map(
    outcomes.map(({ delivery, append }) => {
      const { type } = laterEvents.get(append.stream)?.[0] ?? append.events[0]!
      return [delivery.delivery_id, finishedStatus(type as DeliveryOutcome['type'])]
    }),
  )
}

/** The result of one attempt, or of none if the endpoint was removed. */
export type DeliveryResult = {
  readonly delivery: DueDelivery
  readonly attempt: (Attempted & { readonly startedMs: number; readonly latencyMs: number }) | null
  /** End of the attempt by the service's clock, milliseconds. */
  readonly atMs: number
  /** The outcome to append, or the time of the next attempt. */
  readonly next: { readonly outcome: DeliveryOutcome } | { readonly dueMs: number }
}

/**
 * Stores results: appends outcomes to the log, then updates rows and attempts in the work tables, one write for each
 * batch. After a crash in between, the delivery is sent again, and its second outcome finds the first one in the log.
 */
export const createSettle =
  ({ pool, log, clock }: { readonly pool: pg.Pool; readonly log: EventLog; readonly clock: Clock }) =>
  async (deliveryResults: readonly DeliveryResult[]): Promise<void> => {
    // The last result of each delivery, because an append accepts one item per stream.
    const results = new Map(deliveryResults.map((result) => [result.delivery.delivery_id, result]))
    // The current time: a result may have waited for the log, or for a clock that was ahead.
    const nowMs = clock()
    const outcomes = [...results.values()].flatMap(({ delivery, next }) => {
      if (!('outcome' in next)) return []
      const cause = { correlationId: delivery.delivery_id, causationId: null }
      return [{ delivery, append: outcomeAppend(delivery, next.outcome, cause, nowMs) }]
    })
    const statuses = await appendOutcomes(log, outcomes)
    const rows = [...results].map(([id, { delivery, attempt, atMs, next }]) => ({
      delivery_id: id,
      round: delivery.round,
      attempts: delivery.attempts + (attempt === null ? 0 : 1),
      outcome: statuses.get(id),
      due_at: 'dueMs' in next ? isoTime(next.dueMs) : null,
      at: isoTime(atMs),
      ...(attempt && {
        started_at: isoTime(attempt.startedMs),
        status: attempt.status,
        latency_ms: attempt.latencyMs,
        error: attempt.error,
        answer: attempt.answer,
      }),
    }))
    await pool.query({
      name: 'webhooks-settle',
      text: `with results as materialized (
               select * from jsonb_to_recordset($1::jsonb) as r (
                 delivery_id text, round integer, attempts integer, outcome text, due_at timestamptz, at timestamptz,
                 started_at timestamptz, status integer, latency_ms integer, error text, answer text)
             ), logged as (
               insert into work.webhook_attempts (delivery_id, round, attempt, at, status, latency_ms, error, answer)
               select delivery_id, round, attempts, started_at, status, latency_ms, error, answer
                 from results where started_at is not null
               on conflict do nothing
             )
             update work.webhook_deliveries d
                set status = coalesce(r.outcome, 'pending'), attempts = r.attempts,
                    due_at = coalesce(r.due_at, d.due_at),
                    finished_at = case when r.outcome is not null then r.at end
               from results r
              where d.delivery_id = r.delivery_id and d.round = r.round and d.status = 'pending'`,
      values: [JSON.stringify(rows)],
    })
  }
