import type pg from 'pg'
import { cancellationOf, type WebhookCancellation } from '../../../projections/webhook-queue.ts'
import { decidePublication } from '../../domain/notices/decide.ts'
import type { EndpointEvent } from '../../domain/webhooks/events.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { isolateFailures } from '../../kernel/failures.ts'
import { deriveId, type NoticeId } from '../../kernel/ids.ts'
import { noticeStream } from '../../kernel/streams.ts'
import { isTemporary } from '../../platform/commands/command.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import { type EnqueueDependencies, firstRetryMs } from './enqueue.ts'
import { appendEvents, appendOutcomes, type DeliveryRef, type EventAppend, outcomeAppend } from './settle.ts'
import { eraseEndpoint, retentionMs } from './webhook-vault.ts'

const hourMs = 60 * 60 * 1000

const bodyOf = (endpointId: string, failingSince: string, disabledAt: string): string => {
  // The event of the first failed attempt happened a little before that attempt.
  const since = isoTime(Date.parse(failingSince) - hourMs)
  return [
    `The webhook endpoint ${endpointId} was disabled at ${disabledAt}: every attempt to deliver to it since ${failingSince} failed.`,
    'Nothing more is sent to it, and pending deliveries were canceled.',
    `Repair the receiver, then enable the endpoint: PATCH /api/v1/webhooks/${endpointId} with {"status":"active"}.`,
    `After that, send the missed deliveries again: POST /api/v1/webhooks/${endpointId}/redeliver?since=${since} (at most 30 days back).`,
  ].join('\n')
}

/**
 * The notice that informs an account of an endpoint that failed for days. There is one for each disabling, and its id
 * comes from the event, so that a restarted reactor writes no second one. It leaves the feed when nothing can be
 * redelivered any more. Empty for other causes, and for a disabling by a release that did not record when the failures
 * began.
 */
export const noticeOfDisabling = (
  { endpoint_id, account_id, failing_since, cause_id, correlation_id, caused_at }: WebhookCancellation,
  nowMs: number,
): readonly EventAppend[] => {
  if (failing_since === null) return []
  const disabledMs = Date.parse(caused_at)
  const noticeId = deriveId<NoticeId>('ntc', ['notice', 'endpoint-disabled', endpoint_id, cause_id])
  const draft = {
    noticeId,
    title: 'A webhook endpoint was disabled',
    body: bodyOf(endpoint_id, failing_since, caused_at),
    kind: 'ACTION_REQUIRED',
    audience: 'DEVELOPERS',
    accountId: account_id,
    expiresAt: isoTime(disabledMs + retentionMs),
    linkHref: null,
    linkLabel: null,
  } as const
  const decision = decidePublication(null, draft, disabledMs)
  if (decision.outcome === 'refused')
    throw new Error('the notice of a disabled endpoint breaks a rule', { cause: decision.refusal })
  return [
    {
      stream: noticeStream(noticeId),
      expected: 'noStream',
      events: decision.events,
      correlationId: correlation_id,
      causationId: cause_id,
      nowMs,
      afterMs: disabledMs,
    },
  ]
}

/** Deliveries in one round trip. */
const chunk = 500

type Cancelable = DeliveryRef & { readonly attempts: number }

/** A row of `read.webhooks_stale`. */
type StaleDelivery = Omit<DeliveryRef, 'queued_at'> &
  Pick<WebhookCancellation, 'reason' | 'correlation_id' | 'cause_id' | 'caused_at' | 'position'>

const cancelAppend = (
  delivery: Cancelable,
  cause: Pick<WebhookCancellation, 'reason' | 'correlation_id' | 'cause_id'>,
  nowMs: number,
): EventAppend =>
  outcomeAppend(
    delivery,
    {
      type: 'DeliveryCanceled',
      data: {
        deliveryId: delivery.delivery_id,
        endpointId: delivery.endpoint_id,
        attempts: delivery.attempts,
        reason: cause.reason,
      },
    },
    { correlationId: cause.correlation_id, causationId: cause.cause_id },
    nowMs,
  )

/**
 * Cancels the pending deliveries of an endpoint that were queued before a position. The outcome is appended first, so
 * that a crash before the update of the rows is safe to repeat.
 */
const cancelPending = async (
  { pool, log }: Pick<EnqueueDependencies, 'pool' | 'log'>,
  cause: WebhookCancellation,
  nowMs: number,
): Promise<void> => {
  let since: string | null = null
  for (;;) {
    const { rows }: pg.QueryResult<Cancelable & { readonly due_at: string }> = await pool.query({
      name: 'webhooks-cancelable',
      text: `select delivery_id, endpoint_id, event, resource, revision, attempts, queued_at, due_at
               from work.webhook_deliveries
              where endpoint_id = $1::text and status = 'pending' and position < $2::bigint
                and due_at >= coalesce($3::timestamptz,
                      (select next_due_at from work.queue_owners where queue = 'webhooks' and owner = $1::text), '-infinity')
              order by due_at limit ${chunk}`,
      values: [cause.endpoint_id, cause.position, since],
    })
    if (rows.length === 0) return
    const statuses = await appendOutcomes(
      log,
      rows.map((delivery) => ({ delivery, append: cancelAppend(delivery, cause, nowMs) })),
    )
    await pool.query({
      name: 'webhooks-canceled',
      text: `update work.webhook_deliveries d set status = s.status, finished_at = $3::timestamptz
               from unnest($1::text[], $2::text[]) as s (delivery_id, status)
              where d.delivery_id = s.delivery_id and d.status = 'pending'`,
      values: [
        rows.map(({ delivery_id }) => delivery_id),
        rows.map(({ delivery_id }) => statuses.get(delivery_id)),
        isoTime(nowMs),
      ],
    })
    since = rows.at(-1)!.due_at
  }
}

/**
 * Cancels deliveries that were enqueued after their endpoint was disabled or removed, because the enqueuer did not see
 * the change yet. A delivery with another outcome keeps it. A failed cancellation is repeated a minute later.
 */
export const openStale = ({ pool, log, clock, logger }: EnqueueDependencies): (() => Promise<boolean>) => {
  let after = 0
  /** When failed cancellations are repeated, milliseconds; null: there are none. */
  let retryAtMs: number | null = null
  const cancel = async (rows: readonly StaleDelivery[]): Promise<void> => {
    await appendEvents(
      log,
      rows.map((row) => cancelAppend({ ...row, attempts: 0, queued_at: row.caused_at }, row, clock())),
    )
  }
  return async () => {
    if (retryAtMs !== null && clock() >= retryAtMs) {
      retryAtMs = null
      after = 0
    }
    const { rows } = await pool.query<StaleDelivery>({
      name: 'webhooks-stale',
      text: `select * from read.webhooks_stale where position > $1::bigint order by position limit ${chunk}`,
      values: [after],
    })
    const failed = await isolateFailures(rows, cancel, isTemporary)
    for (const [{ delivery_id: deliveryId }, err] of failed)
      logger.error({ err, deliveryId }, 'a delivery cannot be canceled and is tried again later')
    if (failed.size > 0) retryAtMs ??= clock() + firstRetryMs
    after = rows.at(-1)?.position ?? after
    return rows.length === chunk
  }
}

/**
 * Processes disabled and removed endpoints: cancels pending deliveries, erases the URL and secrets of a removed
 * endpoint, and creates the notice for an endpoint that failed for days. Each call processes one endpoint and returns
 * whether there may be more. A failing endpoint does not block the others.
 */
export const openCancellations = (dependencies: EnqueueDependencies): (() => Promise<boolean>) => {
  const { pool, log, clock, logger } = dependencies
  /** Position of the last failed endpoint. It is skipped until the others are done. */
  let after = 0

  const deleteCancellation = async (position: number): Promise<void> => {
    await pool.query('delete from work.webhook_cancellations where position = $1::bigint', [position])
  }

  /** Reads the cause from the log, because rows can be added with SQL. */
  const readCancellation = async (position: number): Promise<WebhookCancellation | null> => {
    const stored = await log.eventAt(position)
    return stored && cancellationOf(decode(stored) as RecordedEvent<EndpointEvent>)
  }

  const finish = async (position: number): Promise<void> => {
    const next = await readCancellation(position)
    if (next === null) {
      logger.error(
        { position },
        'deliveries of an endpoint are not canceled: no event disabled or removed it',
      )
      return deleteCancellation(position)
    }
    const isRemoved = next.reason === 'endpoint_removed'
    if (isRemoved) await eraseEndpoint(pool, next.endpoint_id)
    await cancelPending(dependencies, next, clock())
    await appendEvents(log, noticeOfDisabling(next, clock()))
    if (isRemoved)
      await pool.query("delete from work.queue_owners where queue = 'webhooks' and owner = $1::text", [
        next.endpoint_id,
      ])
    await deleteCancellation(position)
  }

  return async () => {
    const { rows } = await pool.query<Pick<WebhookCancellation, 'position' | 'endpoint_id'>>({
      name: 'webhooks-cancellations',
      text: 'select position, endpoint_id from work.webhook_cancellations where position > $1::bigint order by position limit 1',
      values: [after],
    })
    const [next] = rows
    if (!next) {
      after = 0
      return false
    }
    try {
      await finish(next.position)
    } catch (err) {
      if (isTemporary(err)) throw err
      logger.error(
        { err, endpointId: next.endpoint_id },
        'the pending deliveries of an endpoint cannot be canceled yet',
      )
      after = next.position
    }
    return true
  }
}
