import type pg from 'pg'
import { type DeliveryOutcome, type FinishedStatus, finishedStatus } from '../../domain/webhooks/events.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { deliveryStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { int4Array, textArray, timestamptzArray } from '../../platform/postgres/pipeline.ts'
import { appendEvents, recordedOutcomes } from './append-outcomes.ts'
import type { DueDelivery } from './delivery-queue.ts'
import type { Attempted } from './webhook-sender.ts'

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
export const createSettle = ({
  pool,
  log,
  clock,
}: {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly clock: Clock
}) => {
  const writeOutcomes = async (
    results: readonly DeliveryResult[],
  ): Promise<ReadonlyMap<string, FinishedStatus>> => {
    const finished = results.flatMap(({ delivery, next }) =>
      'outcome' in next ? [{ delivery, outcome: next.outcome }] : [],
    )
    // The current time: a result may have waited for the log, or for a clock that was ahead.
    const nowMs = clock()
    if (finished.length === 0) return new Map()
    const written = await appendEvents(
      log,
      finished.map(({ delivery, outcome }) => ({
        stream: deliveryStream(delivery.endpoint_id, delivery.event, delivery.resource),
        expected: delivery.revision,
        events: [outcome],
        correlationId: delivery.delivery_id,
        causationId: null,
        nowMs,
        afterMs: Date.parse(delivery.queued_at),
      })),
    )
    const conflicting = finished.filter((_, index) => written[index]?.status === 'conflict')
    const recordedStatuses = await recordedOutcomes(
      log,
      conflicting.map(({ delivery }) => delivery),
    )
    return new Map(
      finished.map(({ delivery, outcome }) => [
        delivery.delivery_id,
        recordedStatuses.get(delivery.delivery_id) ?? finishedStatus(outcome.type),
      ]),
    )
  }

  return async (deliveryResults: readonly DeliveryResult[]): Promise<void> => {
    // The last result of each delivery, because an append accepts one item per stream.
    const results = [
      ...new Map(
        deliveryResults.map((deliveryResult) => [deliveryResult.delivery.delivery_id, deliveryResult]),
      ).values(),
    ]
    const statuses = await writeOutcomes(results)
    const columnOf = <Value>(pick: (result: DeliveryResult) => Value): Value[] => results.map(pick)
    await pool.query({
      name: 'webhooks-settle',
      text: `with results as materialized (
               select * from unnest($1::text[], $2::integer[], $3::integer[], $4::text[], $5::timestamptz[],
                 $6::timestamptz[], $7::integer[], $8::integer[], $9::text[], $10::text[], $11::timestamptz[])
                 as r (delivery_id, round, attempts, outcome, due_at, started_at, status, latency_ms, error, answer, at)
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
      values: [
        textArray(columnOf(({ delivery }) => delivery.delivery_id)),
        int4Array(columnOf(({ delivery }) => delivery.round)),
        int4Array(columnOf(({ delivery, attempt }) => delivery.attempts + (attempt === null ? 0 : 1))),
        textArray(columnOf(({ delivery }) => statuses.get(delivery.delivery_id) ?? null)),
        timestamptzArray(columnOf(({ next }) => ('dueMs' in next ? isoTime(next.dueMs) : null))),
        timestamptzArray(columnOf(({ attempt }) => (attempt === null ? null : isoTime(attempt.startedMs)))),
        int4Array(columnOf(({ attempt }) => attempt?.status ?? null)),
        int4Array(columnOf(({ attempt }) => attempt?.latencyMs ?? 0)),
        textArray(columnOf(({ attempt }) => attempt?.error ?? null)),
        textArray(columnOf(({ attempt }) => attempt?.answer ?? '')),
        timestamptzArray(columnOf(({ atMs }) => isoTime(atMs))),
      ],
    })
  }
}

export type Settle = ReturnType<typeof createSettle>
