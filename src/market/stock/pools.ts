import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { PoolCount } from './counts.ts'

type Row = {
  readonly product_id: string
  readonly country: string
  readonly carrier_id: string
  readonly service: string
  readonly total: number
  readonly rented: number
  readonly resting: number
}

/** Where the next page of pools begins: the key of the last one. */
export type PoolKey = Pick<PoolCount, 'productId' | 'country' | 'carrierId' | 'service'>

/** Up to `limit` pools of stock as the read tables have them, in the order of their keys, that come after one. */
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
