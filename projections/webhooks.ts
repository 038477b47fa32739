import type { DeliveryStatus, EndpointEvent, WebhookEventName } from '../src/domain/webhooks/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import {
  beginsWith,
  contains,
  type Db,
  sql,
  type TimePage,
  timePage,
} from '../src/platform/postgres/kysely.ts'
import { column, nullable, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** One webhook endpoint. Its URL and secrets are in the vault under these ids. */
const webhookEndpointsTable = readTable({
  name: 'webhook_endpoints',
  columns: {
    endpointId: column.text(),
    accountId: column.text(),
    status: column.text<'active' | 'disabled'>(),
    /** Why the service disabled it; null while it is active, or if its owner disabled it. */
    disabledReason: nullable(column.text<'gone' | 'failing'>()),
    /** Null: all events. */
    events: nullable(column.textArray<WebhookEventName>()),
    urlId: column.text(),
    secretId: column.text(),
    previousSecretId: nullable(column.text()),
    previousUntil: nullable(column.timestamptz()),
    createdAt: column.timestamptz(),
  },
  key: ['endpointId'],
  // The second index is for operators, who list the endpoints of all accounts.
  indexes: ['account_id, created_at desc, endpoint_id desc', 'created_at desc'],
})

export type WebhookEndpointRow = RowOf<typeof webhookEndpointsTable> & {
  /** When the first of its attempts failed that no successful one followed; null: the last attempt succeeded. */
  readonly failingSince: string | null
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
export const webhooks = readModel({
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
        endpointId,
        accountId,
        status: 'active',
        disabledReason: null,
        events,
        urlId,
        secretId,
        previousSecretId: null,
        previousUntil: null,
        createdAt: event.metadata.recordedAt,
      })
    }
    const row = rows.get(webhookEndpointsTable, [endpointId])
    if (!row) throw new Error(`${event.type} on the endpoint ${endpointId}, which is not there`)
    switch (event.type) {
      case 'EndpointChanged': {
        const { events = row.events, urlId = row.urlId, status = row.status } = event.data
        const disabledReason = status === row.status ? row.disabledReason : null
        return rows.put(webhookEndpointsTable, { ...row, events, urlId, status, disabledReason })
      }
      case 'EndpointDisabled':
        return rows.put(webhookEndpointsTable, {
          ...row,
          status: 'disabled',
          disabledReason: event.data.reason,
        })
      case 'EndpointRemoved':
        return rows.remove(webhookEndpointsTable, [endpointId])
      case 'SecretRotated': {
        const { secretId, previousSecretId, previousUntil } = event.data
        return rows.put(webhookEndpointsTable, {
          ...row,
          secretId,
          previousSecretId,
          previousUntil,
        })
      }
      default: {
        const unknown: never = event
        throw new Error(`unknown endpoint event ${JSON.stringify(unknown)}`)
      }
    }
  },
})

/** The columns of `work.webhook_deliveries` that are shown. */
export type DeliveriesTable = {
  readonly endpointId: string
  readonly deliveryId: string
  readonly event: WebhookEventName
  readonly resource: string
  readonly status: DeliveryStatus
  readonly round: number
  readonly attempts: number
  readonly dueAt: string
  readonly queuedAt: string
  readonly finishedAt: string | null
}

type Page = { readonly limit: number; readonly offset: number }

/** The endpoints, each with the owner of its deliveries. */
const endpointsWithQueue = (db: Db) =>
  db
    .selectFrom('read.webhook_endpoints as e')
    .leftJoin('work.queue_owners as q', (join) =>
      join.onRef('q.owner', '=', 'e.endpointId').on('q.queue', '=', 'webhooks'),
    )

const failingSince = () => sql<string | null>`q.memory ->> 'failingSince'`

/** A page of the account's endpoints, newest first, and their total number; null: of all accounts. */
export const listEndpoints = async (
  db: Db,
  account: AccountId | null,
  { limit, offset }: Page,
): Promise<{ readonly endpoints: readonly WebhookEndpointRow[]; readonly total: number }> => {
  const all = endpointsWithQueue(db)
  const scoped = account === null ? all : all.where('e.accountId', '=', account)
  const [endpoints, counted] = await Promise.all([
    scoped
      .selectAll('e')
      .select(failingSince().as('failingSince'))
      .orderBy('e.createdAt', 'desc')
      .orderBy('e.endpointId', 'desc')
      .limit(limit)
      .offset(offset)
      .execute(),
    scoped.select((eb) => eb.fn.countAll<number>().as('total')).executeTakeFirstOrThrow(),
  ])
  return { endpoints, total: counted.total }
}

/** An active endpoint whose last attempts failed, or one that was disabled for this reason. */
export type FailingEndpoint = Pick<WebhookEndpointRow, 'endpointId' | 'accountId' | 'disabledReason'> & {
  /** Null for a disabled endpoint. */
  readonly failingSince: string | null
  readonly nextAttemptAt: string | null
  readonly lastError: string | null
}

/** The failing endpoints of an account (null: of all accounts), newest first. */
export const failingEndpoints = async (
  db: Db,
  account: AccountId | null,
  limit: number,
): Promise<readonly FailingEndpoint[]> => {
  const failing = endpointsWithQueue(db).where((eb) =>
    eb.or([
      eb.and([eb('e.status', '=', 'active'), eb(failingSince(), 'is not', null)]),
      eb('e.disabledReason', 'is not', null),
    ]),
  )
  const rows = await (account === null ? failing : failing.where('e.accountId', '=', account))
    .leftJoinLateral(
      (eb) =>
        eb
          .selectFrom('work.webhook_deliveries as d')
          .innerJoin('work.webhook_attempts as a', 'a.deliveryId', 'd.deliveryId')
          .whereRef('d.endpointId', '=', 'e.endpointId')
          .select(['a.error', 'a.status as answer'])
          .orderBy('d.dueAt', 'desc')
          .orderBy('a.at', 'desc')
          .limit(1)
          .as('last'),
      (join) => join.onTrue(),
    )
    .select(['e.endpointId', 'e.accountId', 'e.disabledReason', failingSince().as('failingSince')])
    .select(['q.nextDueAt as nextAttemptAt', 'last.error', 'last.answer'])
    .orderBy('e.createdAt', 'desc')
    .limit(limit)
    .execute()
  return rows.map(({ error, answer, ...endpoint }) => ({
    ...endpoint,
    lastError: error ?? (answer === null ? null : `answered ${answer}`),
  }))
}

/** An endpoint of the account. Undefined if it does not exist or belongs to another account. */
export const findEndpoint = (
  db: Db,
  account: AccountId,
  endpointId: string,
): Promise<WebhookEndpointRow | undefined> =>
  endpointsWithQueue(db)
    .selectAll('e')
    .select(failingSince().as('failingSince'))
    .where('e.endpointId', '=', endpointId)
    .where('e.accountId', '=', account)
    .executeTakeFirst()

export type AttemptRow = {
  readonly round: number
  readonly attempt: number
  readonly at: string
  readonly status: number | null
  readonly latencyMs: number
  readonly error: string | null
  readonly answer: string
}

type Delivery = Omit<DeliveriesTable, 'endpointId'>

export type DeliveryRow = Delivery & { readonly log: readonly AttemptRow[] }

const deliveriesOf = (db: Db, endpointId: string, status: DeliveryStatus | undefined) => {
  const all = db.selectFrom('work.webhook_deliveries').where('endpointId', '=', endpointId)
  return status === undefined ? all : all.where('status', '=', status)
}

type Deliveries = ReturnType<typeof deliveriesOf>

/**
 * The deliveries with their attempts, in the order of `deliveries`. It is one statement and so one snapshot: an attempt is never shown
 * together with the due time before that attempt.
 */
const withAttempts = async (
  db: Db,
  deliveries: Deliveries,
  oldestFirst = false,
): Promise<readonly DeliveryRow[]> => {
  const order = oldestFirst ? 'asc' : 'desc'
  const page = deliveries.select([
    'deliveryId',
    'event',
    'resource',
    'status',
    'round',
    'attempts',
    'dueAt',
    'queuedAt',
    'finishedAt',
  ])
  const rows = await db
    .with('page', () => page)
    .selectFrom('page')
    .leftJoin('work.webhook_attempts as a', 'a.deliveryId', 'page.deliveryId')
    .selectAll('page')
    .select(['a.round as attemptRound', 'a.attempt', 'a.at', 'a.status as answerStatus'])
    .select(['a.latencyMs', 'a.error', 'a.answer'])
    .orderBy('page.queuedAt', order)
    .orderBy('page.deliveryId', order)
    .orderBy('a.round')
    .orderBy('a.attempt')
    .execute()
  const byDelivery = new Map<string, Delivery & { readonly log: AttemptRow[] }>()
  for (const {
    attemptRound: round,
    attempt,
    at,
    answerStatus,
    latencyMs,
    error,
    answer,
    ...delivery
  } of rows) {
    const row = byDelivery.get(delivery.deliveryId) ?? { ...delivery, log: [] }
    byDelivery.set(delivery.deliveryId, row)
    // All columns of an attempt are null for a delivery without one.
    if (round !== null)
      row.log.push({ round, attempt, at, status: answerStatus, latencyMs, error, answer } as AttemptRow)
  }
  return [...byDelivery.values()]
}

/** A page of an endpoint's deliveries of the last 30 days, newest first, each with its attempts. */
export const listDeliveries = async (
  db: Db,
  endpointId: string,
  { limit, offset, status }: Page & { readonly status: DeliveryStatus | undefined },
): Promise<{ readonly deliveries: readonly DeliveryRow[]; readonly total: number }> => {
  const matching = deliveriesOf(db, endpointId, status)
  const [deliveries, { total }] = await Promise.all([
    withAttempts(
      db,
      matching.orderBy('queuedAt', 'desc').orderBy('deliveryId', 'desc').limit(limit).offset(offset),
    ),
    matching.select((eb) => eb.fn.countAll<number>().as('total')).executeTakeFirstOrThrow(),
  ])
  return { deliveries, total }
}

/** A page of deliveries. Deliveries older than 30 days are not stored. */
export const deliveriesAfter = (
  db: Db,
  endpointId: string,
  page: TimePage & { readonly status: DeliveryStatus | undefined; readonly search: string },
): Promise<readonly DeliveryRow[]> => {
  let matching = deliveriesOf(db, endpointId, page.status)
  if (page.search !== '')
    matching = matching.where((eb) =>
      eb.or([
        contains('event', page.search),
        beginsWith('resource', page.search),
        beginsWith('deliveryId', page.search),
      ]),
    )
  const columns = { time: 'queuedAt', id: 'deliveryId' }
  return withAttempts(db, timePage(matching, columns, page), page.oldestFirst)
}

/** One delivery with its attempts, or undefined. */
export const showDelivery = async (
  db: Db,
  endpointId: string,
  deliveryId: string,
): Promise<DeliveryRow | undefined> =>
  (await withAttempts(db, deliveriesOf(db, endpointId, undefined).where('deliveryId', '=', deliveryId)))[0]

/** The data of a stored delivery that a redelivery needs; undefined if there is none. */
export const findDelivery = (
  db: Db,
  endpointId: string,
  deliveryId: string,
): Promise<{ readonly event: WebhookEventName; readonly resource: string } | undefined> =>
  deliveriesOf(db, endpointId, undefined)
    .select(['event', 'resource'])
    .where('deliveryId', '=', deliveryId)
    .executeTakeFirst()
