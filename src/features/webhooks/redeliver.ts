import type pg from 'pg'
import { decideRedelivery } from '../../domain/webhooks/decide.ts'
import type { DeliveryEvent, DeliveryStatus } from '../../domain/webhooks/events.ts'
import { type DeliveryState, deliveryFold } from '../../domain/webhooks/fold.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause, RecordedEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { deliveryStream } from '../../kernel/streams.ts'
import { decode, streamTimeMs } from '../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import type { Webhooks } from './endpoint-service.ts'
import { appendEvents, type EventAppend } from './settle.ts'

/**
 * SQL: a delivery counts as waiting when it is due later than this. One that is due within a second counts as in
 * progress. So two concurrent calls with different times take each delivery once.
 */
export const isWaitingAfterSql = (now: string): string => `${now}::timestamptz + interval '1 second'`

/**
 * Makes deliveries that wait for their next attempt due now. Deliveries in progress or finished do not change. A locked
 * row is skipped, because its outcome is being stored. Concurrent calls for an endpoint take turns. Otherwise each could
 * change some of the rows at its own time, and the order of the events would be lost. Returns the number of changed
 * deliveries.
 *
 * Nothing is appended, because due times are not in the log. The next attempt is the next one of its round.
 */
export const deliverNow = async (
  pool: pg.Pool,
  endpointId: string,
  deliveryIds: readonly string[],
  nowMs: number,
): Promise<number> => {
  const { rows } = await pool.query<{ changed: number }>({
    name: 'webhooks-deliver-now',
    text: `with turn as materialized (
             select pg_advisory_xact_lock(hashtextextended($1::text, 0))
           ), waiting as (
             select delivery_id from work.webhook_deliveries, turn
              where delivery_id = any ($2::text[]) and endpoint_id = $1::text
                and status = 'pending' and due_at > ${isWaitingAfterSql('$3')}
              order by delivery_id for update skip locked
           ), due as (
             update work.webhook_deliveries d set due_at = $3::timestamptz
               from waiting where d.delivery_id = waiting.delivery_id returning d.delivery_id
           )
           select count(*) as changed from due`,
    values: [endpointId, deliveryIds, isoTime(nowMs)],
  })
  return rows[0]?.changed ?? 0
}

/** The most deliveries of one call. */
export const maxRedelivered = 1_000

export type Redelivered = {
  /** Deliveries that are sent now. */
  readonly count: number
  /** There are more: call again. */
  readonly more: boolean
}

type Candidate = {
  readonly delivery_id: string
  readonly event: string
  readonly resource: string
  readonly status: DeliveryStatus
}

/** Undelivered deliveries that are not in progress, the oldest event first. Returns up to one more than the limit. */
const findUndelivered = async (
  pool: pg.Pool,
  endpointId: string,
  sinceMs: number,
  nowMs: number,
): Promise<readonly Candidate[]> => {
  const { rows } = await pool.query<Candidate>({
    name: 'webhooks-undelivered',
    text: `select delivery_id, event, resource, status from work.webhook_deliveries
            where endpoint_id = $1::text and queued_at >= $2::timestamptz
              and (status in ('abandoned', 'canceled') or status = 'pending' and due_at > ${isWaitingAfterSql('$3')})
            order by queued_at, delivery_id limit ${maxRedelivered + 1}`,
    values: [endpointId, isoTime(sinceMs), isoTime(nowMs)],
  })
  return rows
}

const stateOf = (stored: readonly StoredEvent[]): DeliveryState =>
  stored.reduce<DeliveryState>((state, each) => {
    const event = decode(each) as RecordedEvent<DeliveryEvent>
    return deliveryFold.evolve(state, { ...event, recordedAtMs: Date.parse(event.metadata.recordedAt) })
  }, deliveryFold.initial)

/**
 * Sends what an endpoint did not receive since an instant. Abandoned and canceled deliveries are queued again, and
 * waiting ones become due at once. All get the same due time, and the waiting ones are updated only when the others can
 * be sent. So all are sent in the order of their events (delivery-queue.ts). A second call sends nothing twice: the
 * stream shows that a delivery is queued again.
 */
export const createRedeliverSince = (dependencies: {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly clock: Clock
}) => {
  const { pool, log, clock } = dependencies

  /** The number of deliveries queued again. */
  const requeue = async (
    endpointId: string,
    finished: readonly Candidate[],
    { actor, correlationId }: Cause,
    nowMs: number,
  ): Promise<number> => {
    const deliveryStreams = finished.map(({ event, resource }) => deliveryStream(endpointId, event, resource))
    const streams = await log.readStreams(deliveryStreams.map((stream) => ({ stream, from: 0 })))
    const writes = deliveryStreams.flatMap((stream): EventAppend[] => {
      const stored = streams.get(stream) ?? []
      const last = stored.at(-1)
      const [redelivery] = last ? decideRedelivery(stateOf(stored)) : []
      if (!last || !redelivery) return []
      return [
        {
          stream,
          expected: last.revision,
          events: [redelivery],
          actor,
          correlationId,
          causationId: null,
          nowMs,
          afterMs: streamTimeMs(decode(last)),
        },
      ]
    })
    const outcomes = await appendEvents(log, writes)
    return outcomes.filter(({ status }) => status === 'landed').length
  }

  /** @param sendable resolves when the deliveries queued up to a position can be sent */
  return async (
    endpointId: string,
    sinceMs: number,
    cause: Cause,
    sendable: (position: number) => Promise<void>,
  ): Promise<Redelivered> => {
    const nowMs = clock()
    const matchingDeliveries = await findUndelivered(pool, endpointId, sinceMs, nowMs)
    const selected = matchingDeliveries.slice(0, maxRedelivered)
    const pendingDeliveries = selected.filter(({ status }) => status === 'pending')
    const finished = selected.filter(({ status }) => status !== 'pending')
    const requeuedCount = finished.length === 0 ? 0 : await requeue(endpointId, finished, cause, nowMs)
    // Another call may have queued them just before. Then they cannot be sent yet either.
    if (finished.length > 0 && pendingDeliveries.length > 0) await sendable(await log.head())
    // Due with the others, or after the ones that the other call queued.
    const dueMs = requeuedCount === finished.length ? nowMs : clock()
    const pendingIds = pendingDeliveries.map(({ delivery_id }) => delivery_id)
    const advancedCount =
      pendingDeliveries.length === 0 ? 0 : await deliverNow(pool, endpointId, pendingIds, dueMs)
    return { count: requeuedCount + advancedCount, more: matchingDeliveries.length > maxRedelivered }
  }
}

export type RedeliverSince = ReturnType<typeof createRedeliverSince>

/** The most deliveries of one call. */
const maxPerCall = 1_000

type AbandonedDelivery = {
  readonly endpoint_id: string
  readonly account_id: AccountId
  readonly event: string
  readonly resource: string
}

/**
 * Sends abandoned deliveries again as their owners can: appends an event for each that queues it.
 * @param deliveryIds null: all of them, the oldest thousand
 * @returns how many; deliveries of removed endpoints are left out
 */
export const retryDeliveries = async (
  { pool, webhooks }: { readonly pool: pg.Pool; readonly webhooks: Pick<Webhooks, 'redeliver'> },
  deliveryIds: readonly string[] | null,
  cause: Cause,
): Promise<number> => {
  const { rows } = await pool.query<AbandonedDelivery>(
    `select endpoint_id, account_id, event, resource from work.webhook_deliveries
      where status = 'abandoned' and ($1::text[] is null or delivery_id = any ($1::text[]))
      order by queued_at, delivery_id limit ${maxPerCall}`,
    [deliveryIds],
  )
  let count = 0
  for (const { endpoint_id: endpointId, account_id: accountId, event, resource } of rows) {
    const { outcome } = await webhooks.redeliver({ accountId, endpointId }, { event, resource }, cause)
    if (outcome === 'done') count += 1
  }
  return count
}
