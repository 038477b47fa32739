import type pg from 'pg'
import type { MarginDimension } from '../../projections/margins.ts'
import type { AccountId } from '../ids.ts'

/** From `fromMs` on and before `toMs`, milliseconds since the epoch; null: no bound. */
export type Period = { readonly fromMs: number | null; readonly toMs: number | null }

/** What sales less refunds came to. Whole cents. */
export type Margin = {
  readonly orders: number
  readonly revenueCents: number
  readonly costCents: number
  readonly marginCents: number
}
export type MarginRow = Margin & { readonly key: string }

const dayMs = 86_400_000
const dayText = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
const instant = (ms: number): string => new Date(ms).toISOString()

/** Whole days, which are summed up already, and the parts of days at both ends, whose lines are summed. */
const partsOf = ({ fromMs, toMs }: Period) => {
  const firstMs = fromMs === null ? null : Math.ceil(fromMs / dayMs) * dayMs
  const endMs = toMs === null ? null : Math.floor(toMs / dayMs) * dayMs
  const oneDay = firstMs !== null && endMs !== null && firstMs > endMs
  if (oneDay) return { days: ['', ''], edges: [instant(fromMs!), instant(toMs!), null, null] }
  return {
    days: [firstMs === null ? '' : dayText(firstMs), endMs === null ? '~' : dayText(endMs)],
    edges: [
      firstMs === null ? null : instant(fromMs!),
      firstMs === null ? null : instant(firstMs),
      endMs === null ? null : instant(endMs),
      endMs === null ? null : instant(toMs!),
    ],
  }
}

const keyOfLine: Readonly<Record<MarginDimension, string>> = {
  day: `to_char(at at time zone 'UTC', 'YYYY-MM-DD')`,
  product: 'product_id',
  customer: 'customer_id',
}

/** Days newest first; products and customers by their revenue, the largest first. */
const orderOf: Readonly<Record<MarginDimension, string>> = {
  day: 'key desc',
  product: 'revenue desc, key',
  customer: 'revenue desc, key',
}

const parts = (dimension: MarginDimension): string => `
  select key, orders, revenue_micros, cost_micros from read.margin_sums
  where reseller_id = $1::text and dimension = '${dimension}' and day >= $2::text and day < $3::text
  union all
  select ${keyOfLine[dimension]}, case type when 'sale' then 1 else 0 end, revenue_micros, cost_micros
  from read.margin_lines
  where reseller_id = $1::text
    and (at >= $4::timestamptz and at < $5::timestamptz or at >= $6::timestamptz and at < $7::timestamptz)`

const figures = `sum(orders)::bigint as orders, (sum(revenue_micros) / 10000)::bigint as revenue,
  (sum(cost_micros) / 10000)::bigint as cost`

type Row = {
  readonly key: string
  readonly orders: number
  readonly revenue: number
  readonly cost: number
  readonly total: number
}

const marginOf = ({ orders, revenue, cost }: Pick<Row, 'orders' | 'revenue' | 'cost'>): Margin => ({
  orders,
  revenueCents: revenue,
  costCents: cost,
  marginCents: revenue - cost,
})

const valuesOf = (reseller: AccountId, period: Period): unknown[] => {
  const { days, edges } = partsOf(period)
  return [reseller, ...days, ...edges]
}

/** A page of a reseller's margins by day (UTC), product or customer, and how many rows there are in all. */
export const listMargins = async (
  pool: pg.Pool,
  reseller: AccountId,
  asked: Period & {
    readonly groupBy: MarginDimension
    readonly limit: number
    readonly offset: number
  },
): Promise<{ readonly margins: readonly MarginRow[]; readonly total: number }> => {
  const { groupBy, limit, offset } = asked
  const { rows } = await pool.query<Row>({
    name: `margins-by-${groupBy}`,
    text: `
      with sums as (select key, ${figures} from (${parts(groupBy)}) as part group by key),
           page as (select * from sums order by ${orderOf[groupBy]} limit $8::bigint offset $9::bigint)
      select page.*, counted.total from (select count(*) as total from sums) as counted
      left join page on true`,
    values: [...valuesOf(reseller, asked), limit, offset],
  })
  // A page past the end still knows how many rows there are.
  const found = rows.filter(({ key }) => key !== null)
  return {
    margins: found.map((row) => ({ key: row.key, ...marginOf(row) })),
    total: rows[0]?.total ?? 0,
  }
}

/** A reseller's margin of a whole period. */
export const totalMargin = async (
  client: pg.ClientBase,
  reseller: AccountId,
  period: Period,
): Promise<Margin> => {
  const { rows } = await client.query<Row>({
    name: 'margins-total',
    text: `select coalesce(sum(orders), 0)::bigint as orders,
                  coalesce(sum(revenue_micros) / 10000, 0)::bigint as revenue,
                  coalesce(sum(cost_micros) / 10000, 0)::bigint as cost
           from (${parts('day')}) as part`,
    values: valuesOf(reseller, period),
  })
  return marginOf(rows[0]!)
}
