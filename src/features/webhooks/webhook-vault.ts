import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'
import { newId } from '../../kernel/ids.ts'
import { commitmentOf, SealBroken, type Vault } from '../../platform/vault/seal.ts'

/** How long deliveries and their attempts can be read and sent again, milliseconds. */
export const retentionMs = 30 * 24 * 60 * 60 * 1000

/** Rows of one statement, few enough not to block others for long. */
const chunk = 1_000

/** Erases replaced URLs, and secrets whose overlap is over. */
export const eraseSuperseded = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  await pool.query({
    name: 'webhooks-erase-superseded',
    text: `with due as (
             delete from work.webhook_superseded_values where erase_at <= $1::timestamptz returning value_id
           )
           delete from vault.webhook_values v using due where v.value_id = due.value_id`,
    values: [isoTime(nowMs)],
  })
}

/**
 * Deletes deliveries whose outcome is older than the retention, with their attempts. The outcomes remain in the log.
 */
export const deleteOldDeliveries = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  for (;;) {
    const { rowCount } = await pool.query({
      name: 'webhooks-forget',
      text: `with old as (
               select delivery_id from work.webhook_deliveries
                where queued_at < $1::timestamptz and finished_at < $1::timestamptz
                order by queued_at limit ${chunk} for update skip locked
             ), attempts as (
               delete from work.webhook_attempts a using old where a.delivery_id = old.delivery_id
             )
             delete from work.webhook_deliveries d using old where d.delivery_id = old.delivery_id`,
      values: [isoTime(nowMs - retentionMs)],
    })
    if ((rowCount ?? 0) < chunk) return
  }
}

/** A stored value: its id, and a commitment to its encrypted bytes. */
export type StoredValue = { readonly valueId: string; readonly commitment: string }

export type ValueRef = { readonly valueId: string; readonly endpointId: string }

/** The encrypted URLs and secrets of endpoints. An id is never used for another value. */
export type WebhookValues = {
  /** Stores values of an endpoint and returns their ids, in order. They have no effect until the log refers to them. */
  store(endpointId: string, values: readonly string[]): Promise<readonly StoredValue[]>
  /**
   * The texts by id. Erased ones are missing.
   * @throws SealBroken for the value of another endpoint
   */
  read(values: readonly ValueRef[]): Promise<ReadonlyMap<string, string>>
  /** @throws SealBroken for the value of another endpoint */
  open(valueId: string, endpointId: string, sealed: Buffer): string
  drop(valueIds: readonly string[]): Promise<void>
  /** Erases all values of the endpoint. Nothing can be sent to it afterwards. */
  erase(endpointId: string): Promise<void>
}

const contextOf = (valueId: string, endpointId: string): string => `webhook value ${valueId} ${endpointId}`
/** The context of releases before 0.2.0, which did not contain the endpoint. */
const formerContextOf = (valueId: string): string => `webhook value ${valueId}`

export const createWebhookValues = ({
  pool,
  vault,
}: {
  readonly pool: pg.Pool
  readonly vault: Vault
}): WebhookValues => {
  const open: WebhookValues['open'] = (valueId, endpointId, sealed) => {
    try {
      return vault.open(sealed, contextOf(valueId, endpointId)).toString()
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error
      return vault.open(sealed, formerContextOf(valueId)).toString()
    }
  }
  return {
    open,
    store: async (endpointId, values) => {
      const ids = values.map(() => newId('whv'))
      const sealed = values.map((value, index) =>
        vault.seal(Buffer.from(value), contextOf(ids[index]!, endpointId)),
      )
      await pool.query({
        name: 'keep-webhook-values',
        text: `insert into vault.webhook_values (value_id, endpoint_id, sealed)
               select value_id, $1::text, sealed from unnest($2::text[], $3::bytea[]) as v (value_id, sealed)`,
        values: [endpointId, ids, sealed],
      })
      return ids.map((id, index) => ({
        valueId: id,
        commitment: commitmentOf({ what: 'webhook-value', id, owner: endpointId }, sealed[index]!),
      }))
    },
    read: async (values) => {
      const { rows } = await pool.query<{ value_id: string; sealed: Buffer }>({
        name: 'read-webhook-values',
        text: 'select value_id, sealed from vault.webhook_values where value_id = any ($1::text[])',
        values: [values.map(({ valueId }) => valueId)],
      })
      const sealed = new Map(rows.map((row) => [row.value_id, row.sealed]))
      return new Map(
        values.flatMap(({ valueId, endpointId }) => {
          const sealedValue = sealed.get(valueId)
          return sealedValue === undefined ? [] : [[valueId, open(valueId, endpointId, sealedValue)]]
        }),
      )
    },
    drop: async (valueIds) => {
      await pool.query('delete from vault.webhook_values where value_id = any ($1::text[])', [valueIds])
    },
    erase: (endpointId) => eraseEndpoint(pool, endpointId),
  }
}

export const eraseEndpoint = async (db: Pick<pg.Pool, 'query'>, endpointId: string): Promise<void> => {
  await db.query('delete from vault.webhook_values where endpoint_id = $1::text', [endpointId])
}
