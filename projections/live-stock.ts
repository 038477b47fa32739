import type pg from 'pg'
import { type Clock, isoTime } from '../src/kernel/clock.ts'
import type { LiveStock, StockCount } from '../src/market/catalog/availability.ts'

type CountRow = {
  product_id: string
  country: string
  carrier_id: string
  service: string
  available: number
}

const toCount = (row: CountRow): StockCount => ({
  country: row.country,
  carrierId: row.carrier_id || null,
  service: row.service || null,
  available: row.available,
})

/** What can be sold now: what is not rented, less what still rests. Few addresses rest, so few are counted. */
export const createLiveStock = (deps: { readonly pool: pg.Pool; readonly clock: Clock }): LiveStock => {
  const counts = async (productId: string | null): Promise<readonly CountRow[]> => {
    const { rows } = await deps.pool.query<CountRow>({
      name: 'live-stock',
      text: `
        with resting as (
          select product_id, country, carrier_id, service, count(*) as count
          from read.resting_addresses where available_from > $1::timestamptz
          group by product_id, country, carrier_id, service)
        select l.product_id, l.country, l.carrier_id, l.service,
               l.total - l.rented - coalesce(r.count, 0) as available
        from read.stock_levels l left join resting r using (product_id, country, carrier_id, service)
        where $2::text is null or l.product_id = $2::text
        order by l.product_id, l.country, l.carrier_id, l.service`,
      values: [isoTime(deps.clock()), productId],
    })
    return rows
  }
  return {
    of: async (productId) => (await counts(productId)).map(toCount),
    all: async () =>
      new Map(
        Object.entries(Object.groupBy(await counts(null), (row) => row.product_id)).map(
          ([productId, rows]) => [productId, (rows ?? []).map(toCount)],
        ),
      ),
  }
}
