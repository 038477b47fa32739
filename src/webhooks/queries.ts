import type { Kysely } from 'kysely'
import type pg from 'pg'
import type { ReadDatabase } from '../../projections/database.ts'
import type { WebhookEndpointRow } from '../../projections/webhooks.ts'
import type { AccountId } from '../ids.ts'
import type { WebhookEventName } from './event-names.ts'
import type { DeliveryStatus } from './outcomes.ts'

type Page = { readonly limit: number; readonly offset: number }

/** A page of the account's endpoints, newest first, and how many there are. */
export const listEndpoints = async (
  db: Kysely<ReadDatabase>,
  account: AccountId,
  { limit, offset }: Page,
): Promise<{ readonly endpoints: readonly WebhookEndpointRow[]; readonly total: number }> => {
  const own = db.selectFrom('read.webhook_endpoints').where('account_id', '=', account)
  const [endpoints, counted] = await Promise.all([
    own
      .selectAll()
      .orderBy('created_at', 'desc')
      .orderBy('endpoint_id', 'desc')
      .limit(limit)
      .offset(offset)
      .execute(),
    own.select((is) => is.fn.countAll<number>().as('total')).executeTakeFirstOrThrow(),
  ])
  return { endpoints, total: counted.total }
}

/** An endpoint of the account, or undefined: absent and foreign read alike. */
export const findEndpoint = (
  db: Kysely<ReadDatabase>,
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

/** A page of an endpoint's deliveries of the last 30 days, newest first, each with its attempts. */
export const listDeliveries = async (
  pool: pg.Pool,
  endpointId: string,
  filter: Page & { readonly status: DeliveryStatus | undefined },
): Promise<{ readonly deliveries: readonly DeliveryRow[]; readonly total: number }> => {
  const { limit, offset, status = null } = filter
  const fits = `endpoint_id = $1::text and ($2::text is null or status = $2::text)`
  const [page, counted] = await Promise.all([
    pool.query<Omit<DeliveryRow, 'log'>>({
      name: 'webhook-deliveries',
      text: `select ${deliveryColumns} from work.webhook_deliveries where ${fits}
              order by queued_at desc, delivery_id desc limit $3::integer offset $4::bigint`,
      values: [endpointId, status, limit, offset],
    }),
    pool.query<{ total: number }>({
      name: 'webhook-deliveries-total',
      text: `select count(*)::bigint as total from work.webhook_deliveries where ${fits}`,
      values: [endpointId, status],
    }),
  ])
  const { rows: attempts } = await pool.query<AttemptRow & { delivery_id: string }>({
    name: 'webhook-attempts',
    text: `select delivery_id, round, attempt, at, status, latency_ms, error, answer from work.webhook_attempts
            where delivery_id = any ($1::text[]) order by delivery_id, round, attempt`,
    values: [page.rows.map(({ delivery_id }) => delivery_id)],
  })
  const byDelivery = Map.groupBy(attempts, ({ delivery_id }) => delivery_id)
  return {
    deliveries: page.rows.map((row) => ({ ...row, log: byDelivery.get(row.delivery_id) ?? [] })),
    total: counted.rows[0]?.total ?? 0,
  }
}

/** What a redelivery needs of a delivery that is kept, or undefined. */
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
