import type pg from 'pg'
import { thresholdPct } from '../src/domain/plans/fold.ts'
import {
  type DeliveryCanceled,
  type DeliveryOutcome,
  type EndpointEvent,
  finishedStatus,
  isOutcome,
  outcomeTypes,
  type WebhookEnqueued,
  type WebhookRequeued,
} from '../src/domain/webhooks/events.ts'
import { isoTime } from '../src/kernel/clock.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { int4Array, int8Array, textArray, timestamptzArray } from '../src/platform/postgres/pipeline.ts'
import type { WorkFold } from '../src/platform/projections/read-model.ts'

type Db = Pick<pg.ClientBase, 'query'>

/** The deliveries to send according to the log. */
type Queued = RecordedEvent<WebhookEnqueued> | RecordedEvent<WebhookRequeued>

type LowPlanFact = {
  readonly planId: string
  readonly productId: string
  readonly totalBytes: number
  readonly remainingBytes: number
  readonly expiresAt: string | null
}

const gb = (bytes: number): number => bytes / 1_000_000_000

/** The present names of products in the catalogue. A product that is no longer in it has its id as its name. */
const productNames = async (db: Db, ids: readonly string[]): Promise<ReadonlyMap<string, string>> => {
  if (ids.length === 0) return new Map()
  const { rows: catalogTables } = await db.query<{ there: boolean }>(
    "select to_regclass('read.catalog') is not null as there",
  )
  if (!catalogTables[0]?.there) return new Map()
  const { rows } = await db.query<{ id: string; name: string }>(
    `select p->>'id' as id, p->>'name' as name from read.catalog, jsonb_array_elements(products) as p
      where p->>'id' = any ($1::text[])`,
    [ids],
  )
  return new Map(rows.map(({ id, name }) => [id, name]))
}

const planLabels = async (db: Db, planIds: readonly string[]): Promise<ReadonlyMap<string, string>> => {
  if (planIds.length === 0) return new Map()
  const { rows } = await db.query<{ resource_id: string; label: string }>(
    'select resource_id, label from vault.labels where resource_id = any ($1::text[])',
    [planIds],
  )
  return new Map(rows.map(({ resource_id, label }) => [resource_id, label]))
}

const customerNames = async (
  db: Db,
  customerIds: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  if (customerIds.length === 0) return new Map()
  const { rows } = await db.query<{ customer_id: string; ref: string }>(
    'select customer_id, ref from vault.customers where customer_id = any ($1::text[]) and ref is not null',
    [customerIds],
  )
  return new Map(rows.map(({ customer_id, ref }) => [customer_id, ref]))
}

/** Texts of a payload that are in no event. */
export type PayloadTexts = {
  /** The account's own label of a low plan. */
  readonly label: string
  /** The name of the product of a low plan. */
  readonly product: string
  /** The reseller's own id of a customer; null: erased. */
  readonly customer: string | null
}

/** The payload to send, JSON text. */
export const payloadOf = (
  { event, data }: Pick<WebhookEnqueued['data'], 'event' | 'data'>,
  texts: PayloadTexts,
): string => {
  if (event === 'customer.traffic') return JSON.stringify({ ...data, customer: texts.customer })
  if (event !== 'plan.low_traffic') return JSON.stringify(data)
  const fact = data as unknown as LowPlanFact
  return JSON.stringify({
    planId: fact.planId,
    label: texts.label,
    product: texts.product,
    dataGbTotal: gb(fact.totalBytes),
    dataGbRemaining: gb(fact.remainingBytes),
    thresholdPct,
    expiresAt: fact.expiresAt,
  })
}

/**
 * The payloads to send, JSON text. A low plan gets the account's own label, and a customer the reseller's own id, which
 * are in the vault and never in an event. They are stored with the delivery, so that every attempt sends the same
 * payload.
 */
const payloadsOf = async (db: Db, queued: readonly Queued[]): Promise<readonly string[]> => {
  const low = queued.filter(({ data }) => data.event === 'plan.low_traffic')
  const lowPlanFacts = low.map(({ data }) => data.data as unknown as LowPlanFact)
  const names = await productNames(db, [...new Set(lowPlanFacts.map(({ productId }) => productId))])
  const labels = await planLabels(
    db,
    lowPlanFacts.map(({ planId }) => planId),
  )
  const customerIdOf = ({ data }: Queued): string => String(data.data.customerId)
  const customers = await customerNames(
    db,
    queued.filter(({ data }) => data.event === 'customer.traffic').map(customerIdOf),
  )
  return queued.map((each) => {
    const { planId, productId } = each.data.data as unknown as LowPlanFact
    return payloadOf(each.data, {
      label: labels.get(planId) ?? '',
      product: names.get(productId) ?? productId,
      customer: customers.get(customerIdOf(each)) ?? null,
    })
  })
}

/**
 * Inserts deliveries that are due at once. A redelivery resets its row. If its stream continues at a later time
 * (`continuesAt`), that time is stored as `queued_at`: the next event of the stream is not recorded earlier. Queues
 * are locked in the order of their ids, as in the worker, to prevent a deadlock with it.
 */
const saveQueued = async (db: Db, queued: readonly Queued[]): Promise<void> => {
  const latest = [...new Map(queued.map((each) => [each.data.deliveryId, each])).values()]
  const payloads = await payloadsOf(db, latest)
  const columnOf = <Value>(pick: (each: Queued) => Value): Value[] => latest.map(pick)
  await db.query({
    name: 'webhooks-queue',
    text: `with given as materialized (
             select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
               $7::integer[], $8::bigint[], $9::bigint[], $10::timestamptz[], $11::timestamptz[])
               as g (delivery_id, endpoint_id, account_id, event, resource, data, round, revision, position, at, continues)
           )
           insert into work.webhook_deliveries as d (delivery_id, endpoint_id, account_id, event, resource, data,
               round, revision, position, status, attempts, due_at, queued_at)
             select delivery_id, endpoint_id, account_id, event, resource, data, round, revision, position,
               'pending', 0, at, coalesce(continues, at) from given
             on conflict (delivery_id) do update set round = excluded.round, revision = excluded.revision,
               position = excluded.position, status = 'pending', attempts = 0, due_at = excluded.due_at,
               queued_at = case when excluded.queued_at > excluded.due_at then excluded.queued_at else d.queued_at end,
               finished_at = null
              where d.round < excluded.round`,
    values: [
      textArray(columnOf(({ data }) => data.deliveryId)),
      textArray(columnOf(({ data }) => data.endpointId)),
      textArray(columnOf(({ data }) => data.accountId)),
      textArray(columnOf(({ data }) => data.event)),
      textArray(columnOf(({ data }) => data.resource)),
      textArray(payloads),
      int4Array(columnOf((each) => (each.type === 'WebhookRequeued' ? each.data.round : 1))),
      int8Array(columnOf(({ revision }) => revision)),
      int8Array(columnOf(({ position }) => position)),
      timestamptzArray(columnOf(({ metadata }) => metadata.recordedAt)),
      timestamptzArray(columnOf(({ metadata }) => metadata.continuesAt ?? null)),
    ],
  })
}

/**
 * Marks deliveries as finished from the log, so that they are not sent again after a crash, or from the tables of an
 * older backup. The outcome of an earlier round does not affect a redelivery.
 */
const saveOutcomes = async (db: Db, outcomes: readonly RecordedEvent<DeliveryOutcome>[]): Promise<void> => {
  const columnOf = <Value>(pick: (outcome: RecordedEvent<DeliveryOutcome>) => Value): Value[] =>
    outcomes.map(pick)
  await db.query({
    name: 'webhooks-outcomes',
    text: `update work.webhook_deliveries d set status = o.status, attempts = o.attempts, finished_at = o.at
             from unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::timestamptz[])
               as o (delivery_id, status, attempts, revision, at)
            where d.delivery_id = o.delivery_id and d.status = 'pending' and d.revision < o.revision`,
    values: [
      textArray(columnOf(({ data }) => data.deliveryId)),
      textArray(columnOf(({ type }) => finishedStatus(type))),
      int4Array(columnOf(({ data }) => data.attempts)),
      int8Array(columnOf(({ revision }) => revision)),
      timestamptzArray(columnOf(({ metadata }) => metadata.recordedAt)),
    ],
  })
}

/** How long a replaced URL is stored, milliseconds: a worker that leased the endpoint before may still need it. */
const replacedUrlMs = 60 * 60 * 1000

type Superseded = { readonly valueId: string; readonly eraseAt: string }

/** The value of the vault that is no longer used after a time. */
const supersededBy = ({ type, data, metadata }: RecordedEvent<EndpointEvent>): Superseded | null => {
  if (type === 'SecretRotated') return { valueId: data.previousSecretId, eraseAt: data.previousUntil }
  if (type !== 'EndpointChanged' || data.previousUrlId === undefined) return null
  return {
    valueId: data.previousUrlId,
    eraseAt: isoTime(Date.parse(metadata.recordedAt) + replacedUrlMs),
  }
}

/** An endpoint was disabled or removed, and its earlier deliveries are not canceled yet. */
export type WebhookCancellation = {
  readonly position: number
  readonly endpoint_id: string
  readonly account_id: string
  readonly reason: DeliveryCanceled['data']['reason']
  /** Only if the service disabled it because every attempt failed. */
  readonly failing_since: string | null
  readonly cause_id: string
  readonly correlation_id: string
  readonly caused_at: string
}

const cancelReason = (event: RecordedEvent<EndpointEvent>): DeliveryCanceled['data']['reason'] | null => {
  if (event.type === 'EndpointRemoved') return 'endpoint_removed'
  if (event.type === 'EndpointDisabled') return 'endpoint_disabled'
  return event.type === 'EndpointChanged' && event.data.status === 'disabled' ? 'endpoint_disabled' : null
}

/** The cancellation that an event of the log requires; null: none. */
export const cancellationOf = (event: RecordedEvent<EndpointEvent>): WebhookCancellation | null => {
  const reason = cancelReason(event)
  if (reason === null) return null
  const { endpointId, accountId } = event.data
  return {
    position: event.position,
    endpoint_id: endpointId,
    account_id: accountId,
    reason,
    failing_since: event.type === 'EndpointDisabled' ? (event.data.failingSince ?? null) : null,
    cause_id: event.id,
    correlation_id: event.metadata.correlationId,
    caused_at: event.metadata.recordedAt,
  }
}

const saveEndpoints = async (db: Db, events: readonly RecordedEvent<EndpointEvent>[]): Promise<void> => {
  const superseded = events.map(supersededBy).filter((each) => each !== null)
  if (superseded.length > 0)
    await db.query(
      `insert into work.webhook_superseded_values (value_id, erase_at)
       select * from unnest($1::text[], $2::timestamptz[]) on conflict do nothing`,
      [superseded.map(({ valueId }) => valueId), superseded.map(({ eraseAt }) => eraseAt)],
    )
  for (const event of events) {
    const canceled = cancellationOf(event)
    if (canceled === null) continue
    await db.query(
      `insert into work.webhook_cancellations
         (position, endpoint_id, account_id, reason, failing_since, cause_id, correlation_id, caused_at)
       values ($1::bigint, $2::text, $3::text, $4::text, $5::timestamptz, $6::uuid, $7::text, $8::timestamptz)
       on conflict (position) do nothing`,
      [
        canceled.position,
        canceled.endpoint_id,
        canceled.account_id,
        canceled.reason,
        canceled.failing_since,
        canceled.cause_id,
        canceled.correlation_id,
        canceled.caused_at,
      ],
    )
  }
}

/**
 * The queue of deliveries. It is filled from enqueued deliveries and from outcomes, and workers change the due times.
 * Its rows are deleted after 30 days. So it is not a read model, which the log reproduces at any time.
 */
export const webhookQueue: WorkFold = {
  name: 'webhook-queue',
  version: 1,
  types: new Set([
    'WebhookEnqueued',
    'WebhookRequeued',
    ...outcomeTypes,
    'EndpointChanged',
    'EndpointDisabled',
    'EndpointRemoved',
    'SecretRotated',
  ]),
  take: async (db, events) => {
    const queued: Queued[] = []
    const outcomes: RecordedEvent<DeliveryOutcome>[] = []
    const endpoints: RecordedEvent<EndpointEvent>[] = []
    for (const event of events)
      if (event.type === 'WebhookEnqueued' || event.type === 'WebhookRequeued') queued.push(event as Queued)
      else if (isOutcome(event)) outcomes.push(event)
      else endpoints.push(event as RecordedEvent<EndpointEvent>)
    if (queued.length > 0) await saveQueued(db, queued)
    if (outcomes.length > 0) await saveOutcomes(db, outcomes)
    if (endpoints.length > 0) await saveEndpoints(db, endpoints)
    return queued.length + endpoints.length
  },
  reset: async (db) => {
    await db.query(`truncate work.webhook_deliveries, work.webhook_attempts,
      work.webhook_superseded_values, work.webhook_cancellations`)
    await db.query("delete from work.queue_owners where queue = 'webhooks'")
  },
}
