import type pg from 'pg'
import type { Logger } from 'pino'
import { webhookDue } from '../../../projections/groups.ts'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { orderAfter } from '../../domain/orders/fold.ts'
import type { PlanRanLow } from '../../domain/plans/events.ts'
import {
  capTriggerOf,
  lowBalanceTrigger,
  type WebhookTrigger,
  webhookTriggers,
} from '../../domain/webhooks/causes.ts'
import type {
  DeliveryCanceled,
  EndpointEvent,
  WebhookEnqueued,
  WebhookEventName,
} from '../../domain/webhooks/events.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { isolateFailures } from '../../kernel/failures.ts'
import { deriveId, type OrderId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { deliveryStream, orderStream, type StreamName } from '../../kernel/streams.ts'
import { isTemporary } from '../../platform/commands/command.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { Leadership, RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { orderRecord } from '../orders/index.ts'
import { appendEvents, type EventAppend } from './settle.ts'

export const webhookEnqueue = worker({
  name: 'webhook-enqueue',
  about: 'Writes due webhooks to the log, one for each subscribed endpoint',
  trigger: { everyMs: 500, quietMs: 20_000, or: 'a webhook is due' },
  per: 'cluster',
  lock: 'webhook reactor',
  session: 'farebox webhooks',
  process: 'server',
})
/** For this time after the last work, polling is faster. */
const busyMs = 2_000
const busyPollMs = 100
const backoffMs = 1_000

export type EnqueueDependencies = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly clock: Clock
  readonly logger: Logger
}

export type EnqueuerDependencies = EnqueueDependencies & {
  readonly scheduler: Scheduler
  /** Webhooks of a page were enqueued: a point where tests inject failures. */
  readonly onEnqueued?: (() => void) | undefined
  /** The longest silence of its session by Postgres or by this process, milliseconds; default 30,000. */
  readonly answerTimeoutMs?: number
}

/** Does some of the due work and returns whether there may be more. */
type Round = () => Promise<boolean>

/**
 * Repeats rounds of several kinds of work at the same time, in one process at a time. A failure of one kind restarts
 * all.
 */
export const leadEnqueuer = (
  dependencies: EnqueuerDependencies,
  kinds: readonly ((dependencies: EnqueuerDependencies, signal: AbortSignal) => Promise<Round> | Round)[],
): Pick<RunningWorker, 'wake' | 'stop'> => {
  const { scheduler, logger, answerTimeoutMs } = dependencies
  const work = async ({ signal, repeat }: Leadership): Promise<void> => {
    const groupAbort = new AbortController()
    const combinedSignal = AbortSignal.any([signal, groupAbort.signal])
    const loops = kinds.map(async (open) => {
      const round = await open(dependencies, combinedSignal)
      let busyUntilMs = 0
      await repeat(async () => {
        if (await round()) {
          busyUntilMs = performance.now() + busyMs
          return 0
        }
        return performance.now() < busyUntilMs ? busyPollMs : null
      }, combinedSignal)
    })
    try {
      await Promise.race(loops)
    } finally {
      groupAbort.abort(new Error('another part of the enqueuer has ended'))
      await Promise.allSettled(loops)
    }
  }
  return scheduler.lead(webhookEnqueue, work, {
    answerTimeoutMs,
    onError: (error) => {
      logger.error({ err: error, reactor: 'webhooks' }, 'the webhook reactor failed and will try again')
      return backoffMs
    },
  })
}

/** A webhook that is due to one endpoint, as in the read tables. The event at `position` decides. */
export type DueEvent = {
  readonly endpoint_id: string
  readonly account_id: string
  readonly event: WebhookEventName
  readonly resource: string
  /** The payload as JSON text; null: the order `resource` as of `order_revision`. */
  readonly data: string | null
  readonly order_revision: number | null
  /** Position of the cause. */
  readonly position: number
  readonly cause_id: string
  readonly correlation_id: string
  readonly caused_at: string
  /** Why it is canceled at once; null while the endpoint is active. */
  readonly stale: DeliveryCanceled['data']['reason'] | null
}

/**
 * SQL of `stale`: a webhook whose endpoint is disabled or removed by now is enqueued and canceled at once. `e` is the
 * row with `endpoint_id`, `a` the account's row of `read.webhook_accounts`.
 */
export const staleSql = `
  case when exists (select from read.webhook_subscriptions o
                     where o.endpoint_id = e.endpoint_id and o.until_position is null) then null
       when a.endpoints @> jsonb_build_array(jsonb_build_object('endpointId', e.endpoint_id))
       then 'endpoint_disabled' else 'endpoint_removed' end`

/** The id of the one delivery of an event and resource to an endpoint. Receivers de-duplicate on it as `webhook-id`. */
export const deliveryIdOf = (endpointId: string, event: string, resource: string): string =>
  deriveId('dlv', [endpointId, event, resource])

/** The payload of `order.*`: the order right after the event. */
const orderData = (
  event: WebhookEventName,
  throughRevision: number,
  stored: readonly StoredEvent[],
): Readonly<Record<string, unknown>> => {
  const orderEvents = stored
    .filter(({ revision }) => revision <= throughRevision)
    .map((each) => decode(each) as unknown as OrderEvent)
  const order = orderAfter(null, orderEvents)
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
    ...(event === 'order.failed' && { failureReason: record.failureReason }),
    ...(event === 'order.refunded' && {
      refundedAt: record.refundedAt,
      refundCents: record.refundedCents,
    }),
    ...(event === 'order.canceled' && {
      customerId: record.customerId,
      canceledAt: record.canceledAt,
      cancelReason: record.cancelReason,
    }),
    ...(event === 'order.wallet_short' && {
      customerId: record.customerId,
      walletShortfallCents: order.awaiting?.missingCents ?? null,
      waitsUntil: record.waitsUntil,
    }),
  }
}

const streamOf = ({ resource }: DueEvent): StreamName => orderStream(resource as OrderId)

const ordersOf = async (
  log: EventLog,
  dueEvents: readonly DueEvent[],
): Promise<ReadonlyMap<StreamName, readonly StoredEvent[]>> => {
  const streams = new Set(dueEvents.filter(({ data }) => data === null).map(streamOf))
  if (streams.size === 0) return new Map()
  return log.readStreams([...streams].map((stream) => ({ stream, from: 0 })))
}

/** Reads the causes from the log. Causes in orders are already read. */
const causesOf = async (
  log: Pick<EventLog, 'eventAt'>,
  dueEvents: readonly DueEvent[],
  orders: ReadonlyMap<StreamName, readonly StoredEvent[]>,
): Promise<(each: DueEvent) => RecordedEvent | null> => {
  const positions = [
    ...new Set(dueEvents.filter(({ data }) => data !== null).map(({ position }) => position)),
  ]
  const found = await Promise.all(positions.map(async (at) => [at, await log.eventAt(at)] as const))
  const byPosition = new Map(found)
  return (each) => {
    const stored =
      each.data === null
        ? orders.get(streamOf(each))?.find(({ revision }) => revision === each.order_revision)
        : byPosition.get(each.position)
    return stored?.id === each.cause_id ? decode(stored) : null
  }
}

/** The triggers of a cause for an event. The threshold of a balance is in the due row: the cause does not have it. */
const triggersOf = (
  cause: RecordedEvent,
  event: WebhookEventName,
  data: string | null,
): readonly WebhookTrigger[] => {
  switch (event) {
    case 'key.cap_reached': {
      const cap = capTriggerOf(cause)
      return cap === null ? [] : [cap.trigger]
    }
    case 'wallet.low_balance': {
      const { thresholdCents } = JSON.parse(data ?? '{}')
      const isMoney = cause.stream.startsWith('ledger-')
      const trigger =
        isMoney && Number.isSafeInteger(thresholdCents)
          ? lowBalanceTrigger(cause as RecordedEvent<LedgerEvent>, centsToMicros(thresholdCents))
          : null
      return trigger === null ? [] : [trigger]
    }
    default: {
      const trigger = webhookTriggers.get(cause.type)?.(cause)
      return trigger ? [trigger] : []
    }
  }
}

/** The payload of the cause for this account; null if it has none. */
const payloadOf = (
  { account_id: accountId, endpoint_id: endpointId, event, resource, data }: DueEvent,
  cause: RecordedEvent,
  orders: ReadonlyMap<StreamName, readonly StoredEvent[]>,
): Readonly<Record<string, unknown>> | null => {
  if (event === 'plan.low_traffic') {
    // The rest of the plan was computed when the webhook became due, or when the endpoint was subscribed.
    const eventData = (cause as RecordedEvent<PlanRanLow | EndpointEvent>).data
    const fact = JSON.parse(data ?? 'null')
    const isOfPlan =
      'endpointId' in eventData ? eventData.endpointId === endpointId : eventData.planId === resource
    return isOfPlan && eventData.accountId === accountId && fact?.planId === resource ? fact : null
  }
  const trigger = triggersOf(cause, event, data).find((each) => each.resource === resource)
  if (trigger?.event !== event || trigger.resource !== resource) return null
  if ('accountId' in trigger.to && trigger.to.accountId !== accountId) return null
  return trigger.data.kind === 'ready'
    ? trigger.data.data
    : orderData(
        event,
        trigger.data.throughRevision,
        orders.get(orderStream(trigger.data.orderId as OrderId)) ?? [],
      )
}

/**
 * Appends due webhooks, each to its own stream with `noStream`. An existing delivery does not change. SQL can add and
 * change rows, so the payload and its account come from the cause.
 * @throws AppendRejected, LogUnavailable, OutcomeUnknown and database errors; some events may be appended by then
 */
export const enqueueTogether = async (
  { log, logger }: Pick<EnqueueDependencies, 'log' | 'logger'>,
  dueEvents: readonly DueEvent[],
  nowMs: number,
): Promise<void> => {
  const orders = await ordersOf(log, dueEvents)
  const causeOf = await causesOf(log, dueEvents, orders)
  await appendEvents(
    log,
    dueEvents.flatMap((each): readonly EventAppend[] => {
      const { endpoint_id: endpointId, account_id: accountId, event, resource, stale } = each
      const cause = causeOf(each)
      const data = cause && payloadOf(each, cause, orders)
      if (cause === null || data === null) {
        logger.error({ endpointId, event, resource }, 'a webhook is not enqueued: no event causes it')
        return []
      }
      const deliveryId = deliveryIdOf(endpointId, event, resource)
      const enqueued: WebhookEnqueued = {
        type: 'WebhookEnqueued',
        data: { deliveryId, endpointId, accountId, event, resource, data },
      }
      const canceled = (reason: DeliveryCanceled['data']['reason']): DeliveryCanceled => ({
        type: 'DeliveryCanceled',
        data: { deliveryId, endpointId, attempts: 0, reason },
      })
      const { correlationId, recordedAt } = cause.metadata
      return [
        {
          stream: deliveryStream(endpointId, event, resource),
          expected: 'noStream',
          events: stale === null ? [enqueued] : [enqueued, canceled(stale)],
          correlationId,
          causationId: cause.id,
          nowMs,
          afterMs: Date.parse(recordedAt),
        },
      ]
    }),
  )
}

/** A webhook to enqueue: the event at a position, for one endpoint. */
export type WebhookRef = {
  readonly endpoint_id: string
  readonly event: string
  readonly resource: string
  /** Position of its cause. */
  readonly position: number
}

export const firstRetryMs = 60_000
export const maxRetryMs = 3_600_000

/** Webhooks that could not be enqueued. The rows identify them; payload and receiver come from the read tables. */
export const missedQueue: QueueTable = {
  name: 'webhook-enqueue-retries',
  table: 'work.webhook_enqueue_retries',
  key: ['endpoint_id', 'event', 'resource'],
  owner: 'endpoint_id',
  longestWaitMs: maxRetryMs,
  columns: ['position'],
}

/** Stores webhooks that could not be enqueued, so that each is tried again. Existing rows do not change. */
export const storeMissed = async (
  pool: pg.Pool,
  missed: readonly WebhookRef[],
  nowMs: number,
): Promise<void> => {
  await pool.query({
    name: 'webhooks-missed',
    text: `insert into work.webhook_enqueue_retries as r (endpoint_id, event, resource, position, status, due_at)
           select m.*, 'pending', $5::timestamptz
             from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as m (endpoint_id, event, resource, position)
           on conflict (endpoint_id, event, resource) do update
             set position = excluded.position, status = 'pending', due_at = excluded.due_at, attempts = 0,
                 finished_at = null, result = null
             where r.status <> 'pending'`,
    values: [
      missed.map(({ endpoint_id }) => endpoint_id),
      missed.map(({ event }) => event),
      missed.map(({ resource }) => resource),
      missed.map(({ position }) => position),
      isoTime(nowMs + firstRetryMs),
    ],
  })
}

/** Deletes rows of webhooks that were enqueued before an instant. */
export const deleteOldMissed = async (pool: pg.Pool, beforeMs: number): Promise<void> => {
  await pool.query({
    name: 'webhooks-missed-forget',
    text: 'delete from work.webhook_enqueue_retries where finished_at < $1::timestamptz',
    values: [isoTime(beforeMs)],
  })
}

/**
 * Enqueues due webhooks. A webhook that cannot be enqueued does not block the others. It is stored and tried again
 * alone.
 * @throws LogUnavailable, OutcomeUnknown, and database errors of an outage
 */
export const enqueue = async (
  dependencies: Omit<EnqueueDependencies, 'clock'>,
  dueEvents: readonly DueEvent[],
  nowMs: number,
): Promise<void> => {
  const failed = await isolateFailures(
    dueEvents,
    (part) => enqueueTogether(dependencies, part, nowMs),
    isTemporary,
  )
  if (failed.size === 0) return
  for (const [{ endpoint_id: endpointId, event, resource }, err] of failed)
    dependencies.logger.error(
      { err, endpointId, event, resource },
      'a webhook cannot be enqueued and is tried again later',
    )
  await storeMissed(dependencies.pool, [...failed.keys()], nowMs)
}

/**
 * The last announcement that was enqueued; `endpoint` is the last endpoint that it was enqueued for, null at its end.
 */
export type AnnouncementProgress = { readonly position: number; readonly endpoint: string | null }

/** Where enqueuing resumes in the read tables. */
export type EnqueueProgress = {
  /** Everything due up to this position was enqueued by an older release, which had its own checkpoint. */
  readonly dueAfter: number
  readonly announced: AnnouncementProgress
}

/**
 * SQL: one row. Positions apply to the tables that they were read from. For the tables of another log they restart at
 * 0.
 */
export const enqueueProgressSql = `
  select coalesce(e.due_after, 0) as due_after, coalesce(e.announced_position, 0) as position,
         e.announced_endpoint as endpoint
    from engine.checkpoints c left join work.webhook_enqueuing e on e.lineage = c.lineage
   where c.name = '${webhookDue.name}'`

export const readEnqueueProgress = async (pool: pg.Pool): Promise<EnqueueProgress> => {
  const { rows } = await pool.query<{ due_after: number; position: number; endpoint: string | null }>(
    enqueueProgressSql,
  )
  const { due_after: dueAfter = 0, position = 0, endpoint = null } = rows[0] ?? {}
  return { dueAfter, announced: { position, endpoint } }
}

/** Webhooks in one append. */
const page = 200

/** SQL: the columns of a row `e` of `read.webhooks_due`, without `stale`. */
export const dueColumnsSql = `
  e.endpoint_id, e.account_id, e.event, e.resource, e.data, e.order_revision, e.cause_id, e.correlation_id, e.caused_at,
  e.position`

const dueSql = `
  select ${dueColumnsSql}, ${staleSql} as stale
    from (select * from read.webhooks_due
           where not enqueued and (position, endpoint_id, resource) > ($1::bigint, $2::text, $3::text)
           order by position, endpoint_id, resource limit ${page}) e
    left join read.webhook_accounts a on a.account_id = e.account_id
   order by e.position, e.endpoint_id, e.resource`

/**
 * Enqueues webhooks that are due to accounts, one page at a time in the order of the causes. A row remains until its
 * event is projected, so this process skips rows up to the last position. After a restart they are enqueued again,
 * which changes nothing. Each call returns whether there may be more.
 */
export const openDueEvents = async (dependencies: EnqueuerDependencies): Promise<Round> => {
  const { pool, clock, onEnqueued } = dependencies
  const { dueAfter } = await readEnqueueProgress(pool)
  let after = { position: dueAfter + 1, endpoint_id: '', resource: '' }
  return async () => {
    const { rows } = await pool.query<DueEvent>({
      name: 'webhooks-due-events',
      text: dueSql,
      values: [after.position, after.endpoint_id, after.resource],
    })
    const last = rows.at(-1)
    if (last === undefined) return false
    await enqueue(dependencies, rows, clock())
    onEnqueued?.()
    after = last
    return rows.length === page
  }
}
