import type pg from 'pg'
import { readCheckpoint } from '../../../projections/engine/checkpoint.ts'
import { hot } from '../../../projections/groups.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { RecordedEvent } from '../../platform/eventstore/event.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { readLog } from '../../platform/eventstore/read-log.ts'
import type { OrderEvent } from './events.ts'

/** Every order that was fulfilled left a plan or rentals; the others are few. */
const inTables = async (pool: pg.Pool, productIds: readonly string[]): Promise<readonly string[]> => {
  const { rows } = await pool.query<{ id: string }>(
    `select id from unnest($1::text[]) as id
      where exists (select from read.plans p where p.product_id = id)
         or exists (select from read.proxies p where p.product_id = id)
         or exists (select from read.orders o
                     where o.status <> 'completed' and o.details::jsonb ->> 'productId' = id)`,
    [productIds],
  )
  return rows.map(({ id }) => id)
}

const productOf = ({ type, data }: OrderEvent): string | null =>
  type === 'OrderCompleted' || type === 'OrderPlaced' || type === 'OrderAwaitingPayment'
    ? data.order.productId
    : null

/**
 * Which of these products were ever ordered: from the read tables, and from the log where the tables do not reach yet.
 * Without tables all of the log is read.
 */
export const orderedProducts = async (
  { pool, log }: { readonly pool: pg.Pool; readonly log: EventLog },
  productIds: readonly string[],
): Promise<ReadonlySet<string>> => {
  const { rows } = await pool.query<{ made: boolean }>(
    `select bool_and(to_regclass(name) is not null) as made
       from unnest(array['read.plans', 'read.proxies', 'read.orders']) as name`,
  )
  const checkpoint = rows[0]?.made === true ? await readCheckpoint(pool, hot.name) : null
  const ordered = new Set(checkpoint === null ? [] : await inTables(pool, productIds))
  const wanted = new Set(productIds)
  const head = await log.head()
  for await (const page of readLog(log, head, undefined, checkpoint?.position ?? 0))
    for (const stored of page) {
      if (!stored.stream.startsWith('order-')) continue
      const productId = productOf(decode(stored) as RecordedEvent<OrderEvent>)
      if (productId !== null && wanted.has(productId)) ordered.add(productId)
    }
  return ordered
}
