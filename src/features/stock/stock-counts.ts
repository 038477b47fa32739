import type pg from 'pg'
import { type Catalog, countriesOf } from '../../domain/catalog/catalog.ts'
import { isDedicated } from '../../domain/catalog/product.ts'
import { type StockState, stockFold } from '../../domain/stock/fold.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { StreamRef } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import { stockStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'

/** A pool of equivalent addresses. Carrier and service are null except for mobile. */
export type PoolCount = {
  readonly productId: string
  readonly country: string
  readonly carrierId: string | null
  readonly service: string | null
  readonly total: number
  readonly available: number
  /** Released less than 15 minutes ago. */
  readonly resting: number
  readonly rented: number
}

type StockKey = { readonly productId: string; readonly country: string }

const countPools = ({ productId, country }: StockKey, state: StockState, nowMs: number): PoolCount[] => {
  const totals = state.addresses.countBy(({ carrierId, service }) => JSON.stringify([carrierId, service]))
  const sortedTotals = [...totals].sort(([one], [other]) => (one < other ? -1 : 1))
  return sortedTotals.map(([key, total]) => {
    const [carrierId, service] = JSON.parse(key) as [string | null, string | null]
    const pool = state.pools.get(key)
    const rested = pool?.resting.count(({ availableFromMs }) => availableFromMs <= nowMs) ?? 0
    const resting = (pool?.resting.size ?? 0) - rested
    const available = (pool?.ready.size ?? 0) + rested
    const rented = total - available - resting
    return { productId, country, carrierId, service, total, available, resting, rented }
  })
}

/**
 * Counts stock from the log, so it does not depend on the projections. In order of products, countries, carriers and
 * services. Only countries of the catalogue: a country that lost its prices is left out.
 */
export const countStock = async (
  runner: CommandRunner,
  catalog: Catalog,
  selection: { readonly productId?: string | undefined; readonly country?: string | undefined },
  cause: Cause,
): Promise<readonly PoolCount[]> => {
  const stockKeys = catalog.products
    .filter((product) => selection.productId === undefined || product.id === selection.productId)
    .flatMap((product) =>
      isDedicated(product) ? countriesOf(product).map((country) => ({ productId: product.id, country })) : [],
    )
    .filter((stockKey) => selection.country === undefined || stockKey.country === selection.country)
  const streams: Record<string, StreamRef<StockState>> = Object.fromEntries(
    stockKeys.map((stockKey, index) => [
      String(index),
      { stream: stockStream(stockKey.productId, stockKey.country), fold: stockFold },
    ]),
  )
  if (stockKeys.length === 0) return []
  const { answer } = await runner.run({
    name: 'count-stock',
    correlationId: cause.correlationId,
    actor: cause.actor,
    streams,
    decide: (states, { nowMs }) => ({
      appends: [],
      answer: stockKeys.flatMap((stockKey, index) => countPools(stockKey, states[String(index)]!, nowMs)),
    }),
  })
  return answer
}

type Row = {
  readonly product_id: string
  readonly country: string
  readonly carrier_id: string
  readonly service: string
  readonly total: number
  readonly rented: number
  readonly resting: number
}

/** The start of the next page of pools: the key of the last one. */
export type PoolKey = Pick<PoolCount, 'productId' | 'country' | 'carrierId' | 'service'>

/** Up to `limit` pools of the read tables after `after`, in the order of their keys. */
export const poolsAfter = async (
  { pool, clock }: { readonly pool: pg.Pool; readonly clock: Clock },
  { after, limit }: { readonly after: PoolKey | null; readonly limit: number },
): Promise<readonly PoolCount[]> => {
  const { rows } = await pool.query<Row>({
    name: 'pools-after',
    text: `select level.product_id, level.country, level.carrier_id, level.service, level.total, level.rented,
                  (select count(*) from read.resting_addresses resting
                    where resting.product_id = level.product_id and resting.country = level.country
                      and resting.carrier_id = level.carrier_id and resting.service = level.service
                      and resting.available_from > $1::timestamptz) as resting
             from read.stock_levels level
            where (level.product_id, level.country, level.carrier_id, level.service) > ($2::text, $3::text, $4::text, $5::text)
            order by level.product_id, level.country, level.carrier_id, level.service limit $6::int`,
    values: [
      isoTime(clock()),
      after?.productId ?? '',
      after?.country ?? '',
      after?.carrierId ?? '',
      after?.service ?? '',
      limit,
    ],
  })
  return rows.map(({ total, rented, resting, ...row }) => ({
    productId: row.product_id,
    country: row.country,
    carrierId: row.carrier_id || null,
    service: row.service || null,
    total,
    rented,
    resting,
    available: total - rented - resting,
  }))
}
