import type pg from 'pg'
import type { AccountId } from '../../kernel/ids.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import type { Webhooks } from './service.ts'

/** Deliveries of one call. */
const maxAtOnce = 1_000

type Abandoned = {
  readonly endpoint_id: string
  readonly account_id: AccountId
  readonly event: string
  readonly resource: string
}

/**
 * Sends deliveries again that were given up, as their owners can: an event of each queues it once more.
 * @param deliveryIds null: all of them, the oldest thousand
 * @returns how many; those of an endpoint that is no more are left out
 */
export const retryDeliveries = async (
  { pool, webhooks }: { readonly pool: pg.Pool; readonly webhooks: Pick<Webhooks, 'redeliver'> },
  deliveryIds: readonly string[] | null,
  cause: Cause,
): Promise<number> => {
  const { rows } = await pool.query<Abandoned>(
    `select endpoint_id, account_id, event, resource from work.webhook_deliveries
      where status = 'abandoned' and ($1::text[] is null or delivery_id = any ($1::text[]))
      order by queued_at, delivery_id limit ${maxAtOnce}`,
    [deliveryIds],
  )
  let count = 0
  for (const { endpoint_id: endpointId, account_id: accountId, event, resource } of rows) {
    const { outcome } = await webhooks.redeliver({ accountId, endpointId }, { event, resource }, cause)
    if (outcome === 'done') count += 1
  }
  return count
}
