import type pg from 'pg'
import { isoTime } from '../../../kernel/clock.ts'
import type { EventLog } from '../../../platform/eventstore/port.ts'
import { deliveryStream } from '../../../terms/streams.ts'
import type { DeliveryCanceled } from '../events.ts'
import { type DeliveryPlace, standingOutcomes } from '../outcomes.ts'
import type { Step } from './step.ts'
import { type WriteFact, writeFacts } from './write-facts.ts'

/** Deliveries of one round trip. */
const chunk = 500

type Cancelable = DeliveryPlace & { readonly attempts: number; readonly queued_at: string }

export type CancelCause = {
  readonly correlationId: string
  readonly causationId: string | null
  readonly reason: DeliveryCanceled['data']['reason']
  readonly nowMs: number
}

const cancelWrite = (row: Cancelable, cause: CancelCause): WriteFact => ({
  stream: deliveryStream(row.endpoint_id, row.event, row.resource),
  expected: row.revision,
  fact: {
    type: 'DeliveryCanceled',
    data: {
      deliveryId: row.delivery_id,
      endpointId: row.endpoint_id,
      attempts: row.attempts,
      reason: cause.reason,
    },
  } satisfies DeliveryCanceled,
  correlationId: cause.correlationId,
  causationId: cause.causationId,
  atMs: Math.max(cause.nowMs, Date.parse(row.queued_at)),
})

/** Puts on record that deliveries which were just queued are sent to nobody. One whose outcome came first keeps it. */
export const cancelStale = async (log: EventLog, stale: Step['stale'], nowMs: number): Promise<void> => {
  await writeFacts(
    log,
    stale.map(({ queued, reason }) => {
      const { deliveryId, endpointId, event, resource } = queued.data
      const place = { delivery_id: deliveryId, endpoint_id: endpointId, event, resource }
      const { revision, metadata, id } = queued
      const cause = { correlationId: metadata.correlationId, causationId: id, reason, nowMs }
      return cancelWrite({ ...place, revision, attempts: 0, queued_at: metadata.recordedAt }, cause)
    }),
  )
}

/**
 * Cancels the deliveries of an endpoint that were queued before a position and still wait. The outcome is written first, so
 * that after a crash in between it can be done again.
 */
export const cancelPending = async (
  deps: { readonly db: Pick<pg.ClientBase, 'query'>; readonly log: EventLog },
  { endpointId, before }: { readonly endpointId: string; readonly before: number },
  cause: CancelCause,
): Promise<number> => {
  const { db, log } = deps
  let canceled = 0
  let since: string | null = null
  for (;;) {
    const { rows }: pg.QueryResult<Cancelable & { readonly due_at: string }> = await db.query(
      `select delivery_id, endpoint_id, event, resource, revision, attempts, queued_at, due_at
         from work.webhook_deliveries
        where endpoint_id = $1::text and status = 'pending' and position < $2::bigint
          and due_at >= coalesce($3::timestamptz,
                (select next_due_at from work.webhook_queues where endpoint_id = $1::text), '-infinity')
        order by due_at limit ${chunk}`,
      [endpointId, before, since],
    )
    if (rows.length === 0) return canceled
    const outcomes = await writeFacts(
      log,
      rows.map((row) => cancelWrite(row, cause)),
    )
    const others = rows.filter((_, index) => outcomes[index]?.status === 'conflict')
    // A worker that wrote its outcome just before counts.
    const standing = await standingOutcomes(log, others)
    await db.query(
      `update work.webhook_deliveries d set status = s.status, finished_at = $3::timestamptz
         from unnest($1::text[], $2::text[]) as s (delivery_id, status)
        where d.delivery_id = s.delivery_id and d.status = 'pending'`,
      [
        rows.map(({ delivery_id }) => delivery_id),
        rows.map(({ delivery_id }) => standing.get(delivery_id) ?? 'canceled'),
        isoTime(cause.nowMs),
      ],
    )
    canceled += rows.length
    since = rows.at(-1)!.due_at
  }
}
