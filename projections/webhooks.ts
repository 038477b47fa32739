import type { Kysely } from 'kysely'
import type pg from 'pg'
import type { DeliveryStatus, EndpointEvent, WebhookEventName } from '../src/domain/webhooks/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import type { ReadModel, Table } from '../src/platform/projections/read-model.ts'

/** The read tables of the queries in this file. */
type QueriedTables = {
  'read.webhook_endpoints': WebhookEndpointRow
}

/** One webhook endpoint. Its URL and secrets are in the vault under these ids. */
export type WebhookEndpointRow = {
  readonly endpoint_id: string
  readonly account_id: string
  readonly status: 'active' | 'disabled'
  /** Why the service disabled it; null while it is active, or if its owner disabled it. */
  readonly disabled_reason: 'gone' | 'failing' | null
  /** Null: all events. */
  readonly events: readonly WebhookEventName[] | null
  readonly url_id: string
  readonly secret_id: string
  readonly previous_secret_id: string | null
  readonly previous_until: string | null
  readonly created_at: string
}

const webhookEndpointsTable: Table<WebhookEndpointRow> = {
  name: 'webhook_endpoints',
  columns: {
    endpoint_id: { type: 'text' },
    account_id: { type: 'text' },
    status: { type: 'text' },
    disabled_reason: { type: 'text', nullable: true },
    events: { type: 'text[]', nullable: true },
    url_id: { type: 'text' },
    secret_id: { type: 'text' },
    previous_secret_id: { type: 'text', nullable: true },
    previous_until: { type: 'timestamptz', nullable: true },
    created_at: { type: 'timestamptz' },
  },
  key: ['endpoint_id'],
  // The second index is for operators, who list the endpoints of all accounts.
  indexes: ['account_id, created_at desc, endpoint_id desc', 'created_at desc'],
}

const endpointEvents: ReadonlySet<string> = new Set<EndpointEvent['type']>([
  'EndpointRegistered',
  'EndpointChanged',
  'EndpointDisabled',
  'EndpointRemoved',
  'SecretRotated',
])

const isEndpointEvent = (event: RecordedEvent): event is RecordedEvent<EndpointEvent> =>
  endpointEvents.has(event.type)

/** The endpoints that were not removed. */
export const webhooks: ReadModel = {
  name: 'webhooks',
  version: 2,
  tables: [webhookEndpointsTable],
  reads: (event) =>
    isEndpointEvent(event) && event.type !== 'EndpointRegistered'
      ? [{ table: webhookEndpointsTable.name, key: [event.data.endpointId] }]
      : [],
  apply: (event, rows) => {
    if (!isEndpointEvent(event)) return
    const { endpointId } = event.data
    if (event.type === 'EndpointRegistered') {
      const { accountId, events, urlId, secretId } = event.data
      return rows.put(webhookEndpointsTable, {
        endpoint_id: endpointId,
        account_id: accountId,
        status: 'active',
        disabled_reason: null,
        events,
        url_id: urlId,
        secret_id: secretId,
        previous_secret_id: null,
        previous_until: null,
        created_at: event.metadata.recordedAt,
      })
    }
    const row = rows.get(webhookEndpointsTable, [endpointId])
    if (!row) throw new Error(`${event.type} on the endpoint ${endpointId}, which is not there`)
    switch (event.type) {
      case 'EndpointChanged': {
        const { events = row.events, urlId = row.url_id, status = row.status } = event.data
        const disabled_reason = status === row.status ? row.disabled_reason : null
        return rows.put(webhookEndpointsTable, { ...row, events, url_id: urlId, status, disabled_reason })
      }
      case 'EndpointDisabled':
        return rows.put(webhookEndpointsTable, {
          ...row,
          status: 'disabled',
          disabled_reason: event.data.reason,
        })
      case 'EndpointRemoved':
        return rows.remove(webhookEndpointsTable, [endpointId])
      case 'SecretRotated': {
        const { secretId, previousSecretId, previousUntil } = event.data
        return rows.put(webhookEndpointsTable, {
          ...row,
          secret_id: secretId,
          previous_secret_id: previousSecretId,
          previous_until: previousUntil,
        })
      }
      default: {
        const unknown: never = event
        throw new Error(`unknown endpoint event ${JSON.stringify(unknown)}`)
      }
    }
  },
}

type Page = { readonly limit: number; readonly offset: number }

/** A page of the account's endpoints, newest first, and their total number; null: of all accounts. */
export const listEndpoints = async (
  db: Kysely<QueriedTables>,
  account: AccountId | null,
  { limit, offset }: Page,
): Promise<{ readonly endpoints: readonly WebhookEndpointRow[]; readonly total: number }> => {
  const all = db.selectFrom('read.webhook_endpoints')
  const scoped = account === null ? all : all.where('account_id', '=', account)
  const [endpoints, counted] = await Promise.all([
    scoped
      .selectAll()
      .orderBy('created_at', 'desc')
      .orderBy('endpoint_id', 'desc')
      .limit(limit)
      .offset(offset)
      .execute(),
    scoped.select((eb) => eb.fn.countAll<number>().as('total')).executeTakeFirstOrThrow(),
  ])
  return { endpoints, total: counted.total }
}

/** An endpoint of the account. Undefined if it does not exist or belongs to another account. */
export const findEndpoint = (
  db: Kysely<QueriedTables>,
  account: AccountId,
  endpointId: string,
): Promise<WebhookEndpointRow | undefined> =>
  db
    .selectFrom('read.webhook_endpoints')
    .selectAll()
    .where('endpoint_id', '=', endpointId)
    .where('account_id', '=', account)
    .executeTakeFirst()

export type AttemptRow = {
  readonly round: number
  readonly attempt: number
  readonly at: string
  readonly status: number | null
  readonly latency_ms: number
  readonly error: string | null
  readonly answer: string
}

export type DeliveryRow = {
  readonly delivery_id: string
  readonly event: WebhookEventName
  readonly resource: string
  readonly status: DeliveryStatus
  readonly round: number
  readonly attempts: number
  readonly due_at: string
  readonly queued_at: string
  readonly finished_at: string | null
  readonly log: readonly AttemptRow[]
}

const deliveryColumns = `delivery_id, event, resource, status, round, attempts, due_at, queued_at, finished_at`

const attemptedColumns = `page.*, a.round as attempt_round, a.attempt, a.at, a.status as answer_status,
                  a.latency_ms, a.error, a.answer`
const attemptedOrder = 'order by page.queued_at desc, page.delivery_id desc, a.round, a.attempt'
/** The deliveries of `page`, one row per attempt. */
const withAttempts = `select ${attemptedColumns}
             from page left join work.webhook_attempts a using (delivery_id)
            ${attemptedOrder}`

/** A page of an endpoint's deliveries of the last 30 days, newest first, each with its attempts. */
export const listDeliveries = async (
  pool: pg.Pool,
  endpointId: string,
  filter: Page & { readonly status: DeliveryStatus | undefined },
): Promise<{ readonly deliveries: readonly DeliveryRow[]; readonly total: number }> => {
  const { limit, offset, status = null } = filter
  const condition = `endpoint_id = $1::text and ($2::text is null or status = $2::text)`
  // One statement and so one snapshot: an attempt is never shown together with the due time before that attempt.
  const { rows } = await pool.query<PageRow>({
    name: 'webhook-deliveries',
    text: `with page as (
             select ${deliveryColumns} from work.webhook_deliveries where ${condition}
              order by queued_at desc, delivery_id desc limit $3::integer offset $4::bigint
           ), counted as (
             select count(*) as total from work.webhook_deliveries where ${condition}
           )
           select counted.total, ${attemptedColumns}
             from counted left join page on true left join work.webhook_attempts a using (delivery_id)
            ${attemptedOrder}`,
    values: [endpointId, status, limit, offset],
  })
  const byDelivery = Map.groupBy(rows, ({ delivery_id }) => delivery_id)
  byDelivery.delete(null)
  return { deliveries: [...byDelivery.values()].map(deliveryOf), total: rows[0]?.total ?? 0 }
}

/** Deliveries of a page after a given one, newest first. Deliveries older than 30 days are not stored. */
export type DeliveriesAfter = {
  readonly status: DeliveryStatus | undefined
  /** Null: from the newest. */
  readonly after: { readonly at: string; readonly id: string } | null
  readonly limit: number
}

/** As `listDeliveries`, but paged by key and without a total, so that no row before the page is read. */
export const deliveriesAfter = async (
  pool: pg.Pool,
  endpointId: string,
  { status, after, limit }: DeliveriesAfter,
): Promise<readonly DeliveryRow[]> => {
  const { rows } = await pool.query<AttemptedRow>({
    name: 'webhook-deliveries-after',
    text: `with page as (
             select ${deliveryColumns} from work.webhook_deliveries
              where endpoint_id = $1::text and ($2::text is null or status = $2::text)
                and (queued_at, delivery_id) < ($3::timestamptz, $4::text)
              order by queued_at desc, delivery_id desc limit $5::integer
           )
           ${withAttempts}`,
    values: [endpointId, status ?? null, after?.at ?? 'infinity', after?.id ?? '', limit],
  })
  return [...Map.groupBy(rows, ({ delivery_id }) => delivery_id).values()].map(deliveryOf)
}

/** One delivery with its attempts, or undefined. */
export const showDelivery = async (
  pool: pg.Pool,
  endpointId: string,
  deliveryId: string,
): Promise<DeliveryRow | undefined> => {
  const { rows } = await pool.query<AttemptedRow>({
    name: 'webhook-delivery-with-attempts',
    text: `with page as (
             select ${deliveryColumns} from work.webhook_deliveries
              where delivery_id = $1::text and endpoint_id = $2::text
           )
           ${withAttempts}`,
    values: [deliveryId, endpointId],
  })
  return rows.length === 0 ? undefined : deliveryOf(rows)
}

/** A delivery with one of its attempts. For an empty page all columns but the total are null. */
type PageRow = AttemptedRow & { readonly total: number }

/** A delivery with one of its attempts. */
type AttemptedRow = Omit<DeliveryRow, 'log' | 'delivery_id'> & {
  readonly delivery_id: string | null
  /** Null, like the columns after it, before the first attempt. */
  readonly attempt_round: number | null
  readonly attempt: number
  readonly at: string
  readonly answer_status: number | null
  readonly latency_ms: number
  readonly error: string | null
  readonly answer: string
}

const deliveryOf = (rows: readonly AttemptedRow[]): DeliveryRow => {
  const { delivery_id, event, resource, status, round, attempts, due_at, queued_at, finished_at } = rows[0]!
  const log = rows.flatMap(
    ({ attempt_round, attempt, at, answer_status, latency_ms, error, answer }): AttemptRow[] =>
      attempt_round === null
        ? []
        : [{ round: attempt_round, attempt, at, status: answer_status, latency_ms, error, answer }],
  )
  const delivery = { event, resource, status, round, attempts, due_at, queued_at, finished_at }
  return { delivery_id: delivery_id!, ...delivery, log }
}

/** The data of a stored delivery that a redelivery needs; undefined if there is none. */
export const findDelivery = async (
  pool: pg.Pool,
  endpointId: string,
  deliveryId: string,
): Promise<{ readonly event: WebhookEventName; readonly resource: string } | undefined> => {
  const { rows } = await pool.query<{ event: WebhookEventName; resource: string }>({
    name: 'webhook-delivery',
    text: 'select event, resource from work.webhook_deliveries where delivery_id = $1::text and endpoint_id = $2::text',
    values: [deliveryId, endpointId],
  })
  return rows[0]
}
