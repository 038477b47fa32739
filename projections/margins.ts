import type pg from 'pg'
import type { CustomerCharged, CustomerRefunded } from '../src/domain/ledger/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId, CustomerId } from '../src/kernel/ids.ts'
import type { AccountScope as Scope } from '../src/kernel/scopes.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import {
  column,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

export type MarginDimension = 'day' | 'product' | 'customer'

/** One sale to a reseller's customer, or one refund of it, which is negative. Whole cents in micro-dollars. */
export const marginLinesTable = readTable({
  name: 'margin_lines',
  columns: {
    /** The order id of a sale, or the refund id of a refund. Unique. */
    lineId: column.text(),
    type: column.text<'sale' | 'refund'>(),
    resellerId: column.text(),
    at: column.timestamptz(),
    /** The money event of the line. */
    position: column.bigint(),
    eventId: column.text(),
    orderId: column.text(),
    customerId: column.text(),
    productId: column.text(),
    quantity: column.bigint(),
    revenueMicros: column.bigint(),
    costMicros: column.bigint(),
  },
  key: ['lineId'],
  indexes: [
    'reseller_id, at, position',
    // The statement of one customer.
    'reseller_id, customer_id, at, position',
  ],
})

export type MarginLineRow = RowOf<typeof marginLinesTable>

/** The result of a reseller on one day or in one month (UTC): in total, of a product, or of a customer. */
export const marginSumsTable = readTable({
  name: 'margin_sums',
  columns: {
    resellerId: column.text(),
    dimension: column.text<MarginDimension>(),
    /** Customers are many and buy rarely. Their sums are also stored by month, so that a year is read quickly. */
    span: column.text<'day' | 'month'>(),
    /** `2026-11-21`, or `2026-11` for a month. */
    starts: column.text(),
    /** The day, the product's id or the customer's id. */
    key: column.text(),
    /** The number of sales. */
    orders: column.bigint(),
    revenueMicros: column.bigint(),
    costMicros: column.bigint(),
  },
  key: ['resellerId', 'dimension', 'span', 'starts', 'key'],
  rewritten: true,
})

export type MarginSumRow = RowOf<typeof marginSumsTable>

type MarginEvent = RecordedEvent<CustomerCharged | CustomerRefunded>

const isMargin = (event: RecordedEvent): event is MarginEvent =>
  event.type === 'CustomerCharged' || event.type === 'CustomerRefunded'

/** `2026-11-21` from `2026-11-21T02:30:00.000Z`. */
const dayOf = (at: string): string => at.slice(0, 10)
/** `2026-11` */
const monthOf = (at: string): string => at.slice(0, 7)

const lineOf = (event: MarginEvent, rows: Rows): MarginLineRow => {
  const at = event.metadata.recordedAt
  const { position, id: eventId } = event
  if (event.type === 'CustomerCharged') {
    const { order, customerId, amountMicros, costMicros } = event.data
    return {
      lineId: order.orderId,
      type: 'sale',
      resellerId: ownerOf(event.stream),
      at,
      position,
      eventId,
      orderId: order.orderId,
      customerId,
      productId: order.productId,
      quantity: order.quantity,
      revenueMicros: amountMicros,
      costMicros,
    }
  }
  const { orderId, reference, amountMicros, costMicros } = event.data
  const sale = rows.get(marginLinesTable, [orderId])
  if (!sale) throw new Error(`a refund of order ${orderId}, which was never charged`)
  return {
    ...sale,
    lineId: reference,
    type: 'refund',
    at,
    position,
    eventId,
    revenueMicros: 0 - amountMicros,
    costMicros: 0 - costMicros,
  }
}

/** The key of a row of the sums. */
type SumKey = readonly [reseller: string, MarginDimension, MarginSumRow['span'], starts: string, key: string]

/** The sums that are known without the product: of the whole day, and of the customer by day and month. */
const customerSums = (reseller: string, at: string, customer: string): readonly SumKey[] => {
  const day = dayOf(at)
  return [
    [reseller, 'day', 'day', day, day],
    [reseller, 'customer', 'day', day, customer],
    [reseller, 'customer', 'month', monthOf(at), customer],
  ]
}

const productSum = (reseller: string, at: string, product: string): SumKey => [
  reseller,
  'product',
  'day',
  dayOf(at),
  product,
]

const addTo = (rows: Rows, line: MarginLineRow): void => {
  const { resellerId: reseller, at } = line
  for (const sumKey of [
    ...customerSums(reseller, at, line.customerId),
    productSum(reseller, at, line.productId),
  ]) {
    const sum = rows.get(marginSumsTable, sumKey)
    const [resellerId, dimension, span, starts, key] = sumKey
    rows.put(marginSumsTable, {
      resellerId,
      dimension,
      span,
      starts,
      key,
      orders: (sum?.orders ?? 0) + (line.type === 'sale' ? 1 : 0),
      revenueMicros: (sum?.revenueMicros ?? 0) + line.revenueMicros,
      costMicros: (sum?.costMicros ?? 0) + line.costMicros,
    })
  }
}

const noKeys: readonly never[] = []

/**
 * The margins of resellers on their customers: the lines of their statements, and the sums by day, product and
 * customer, for customers also by month. A refund has its own date. An order of a reseller for itself is no sale and
 * has no line.
 */
export const margins = readModel({
  name: 'margins',
  version: 4,
  tables: [marginLinesTable, marginSumsTable],
  reads: (event) => {
    if (!isMargin(event)) return noKeys
    const reseller = ownerOf(event.stream)
    const { recordedAt } = event.metadata
    const sum = (key: SumKey) => ({ table: marginSumsTable.name, key })
    const sumKeys = customerSums(reseller, recordedAt, event.data.customerId).map(sum)
    // Only the sale has the product of a refund. So the sum of that product is loaded separately when it is needed.
    return event.type === 'CustomerCharged'
      ? [...sumKeys, sum(productSum(reseller, recordedAt, event.data.order.productId))]
      : [...sumKeys, { table: marginLinesTable.name, key: [event.data.orderId] }]
  },
  apply: (event, rows) => {
    if (!isMargin(event)) return
    const line = lineOf(event, rows)
    rows.insert(marginLinesTable, line)
    addTo(rows, line)
  },
})

/** From `fromMs` (inclusive) to `toMs` (exclusive), milliseconds since the epoch; null: no bound. */
export type Period = { readonly fromMs: number | null; readonly toMs: number | null }

/** Sales minus refunds. Whole cents. */
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

/**
 * From the first (inclusive) to the second (exclusive). Of days and months as texts, '' is the least and '~' the
 * last.
 */
type Range = readonly [string | null, string | null]

/** The parts of a period: whole months and days, whose sums are stored, and lines at both ends. */
type Parts = {
  readonly months: Range
  readonly days: readonly [Range, Range]
  readonly lines: readonly [Range, Range]
}

const noTexts: Range = ['', '']
const noInstants: Range = [null, null]

/** The first month that begins on this day or later: `2026-11`. */
const nextMonth = (ms: number): string => {
  const date = new Date(ms)
  const first = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + (date.getUTCDate() === 1 ? 0 : 1))
  return dayText(first).slice(0, 7)
}
const marginMonth = (ms: number): string => dayText(ms).slice(0, 7)

const partsOf = ({ fromMs, toMs }: Period, byMonth: boolean): Parts => {
  const firstMs = fromMs === null ? null : Math.ceil(fromMs / dayMs) * dayMs
  const endMs = toMs === null ? null : Math.floor(toMs / dayMs) * dayMs
  if (firstMs !== null && endMs !== null && firstMs > endMs)
    return {
      months: noTexts,
      days: [noTexts, noTexts],
      lines: [[instant(fromMs!), instant(toMs!)], noInstants],
    }
  const lines: Parts['lines'] = [
    firstMs === null ? noInstants : [instant(fromMs!), instant(firstMs)],
    endMs === null ? noInstants : [instant(endMs), instant(toMs!)],
  ]
  const firstDay = firstMs === null ? '' : dayText(firstMs)
  const endDay = endMs === null ? '~' : dayText(endMs)
  const months: Range = byMonth
    ? [firstMs === null ? '' : nextMonth(firstMs), endMs === null ? '~' : marginMonth(endMs)]
    : noTexts
  if (months[0]! >= months[1]!) return { months: noTexts, days: [[firstDay, endDay], noTexts], lines }
  return {
    months,
    days: [
      firstMs === null ? noTexts : [firstDay, `${months[0]}-01`],
      endMs === null ? noTexts : [`${months[1]}-01`, endDay],
    ],
    lines,
  }
}

const keyOfLine: Readonly<Record<MarginDimension, string>> = {
  day: `to_char(at at time zone 'UTC', 'YYYY-MM-DD')`,
  product: 'product_id',
  customer: 'customer_id',
}

/** Days newest first; products and customers by revenue, the largest first. */
const orderOf: Readonly<Record<MarginDimension, string>> = {
  day: 'key desc',
  product: 'revenue desc, key',
  customer: 'revenue desc, key',
}

/** One branch per range: for ranges joined by `or` Postgres may scan all rows of the reseller. */
const parts = (dimension: MarginDimension): string => {
  const sums = (span: MarginSumRow['span'], from: string, to: string): string =>
    `select key, orders, revenue_micros, cost_micros from read.margin_sums
      where reseller_id = $1::text and dimension = '${dimension}' and span = '${span}'
        and starts >= ${from}::text and starts < ${to}::text`
  const lines = (from: string, to: string): string =>
    `select ${keyOfLine[dimension]}, case type when 'sale' then 1 else 0 end, revenue_micros, cost_micros
      from read.margin_lines
      where reseller_id = $1::text and at >= ${from}::timestamptz and at < ${to}::timestamptz`
  return [
    sums('month', '$2', '$3'),
    sums('day', '$4', '$5'),
    sums('day', '$6', '$7'),
    lines('$8', '$9'),
    lines('$10', '$11'),
  ].join(' union all ')
}

const figures = `sum(orders)::bigint as orders, (sum(revenue_micros) / 10000)::bigint as revenue,
  (sum(cost_micros) / 10000)::bigint as cost`

type Figures = { readonly orders: number; readonly revenue: number; readonly cost: number }
type Row = Figures & { readonly key: string; readonly total: number }

const marginOf = ({ orders, revenue, cost }: Figures): Margin => ({
  orders,
  revenueCents: revenue,
  costCents: cost,
  marginCents: revenue - cost,
})

const valuesOf = (reseller: AccountId, period: Period, dimension: MarginDimension): unknown[] => {
  const { months, days, lines } = partsOf(period, dimension === 'customer')
  return [reseller, ...months, ...days.flat(), ...lines.flat()]
}

/** The source of figures: a select of `key, orders, revenue_micros, cost_micros`, and the name for its statements. */
type Source = { readonly name: string; readonly select: string; readonly values: readonly unknown[] }

/** One customer has few lines, so its figures are summed from its lines only. */
const linesOfCustomer = (
  reseller: AccountId,
  customerId: CustomerId,
  { fromMs, toMs }: Period,
  dimension: MarginDimension,
): Source => ({
  name: `${dimension}-of-customer`,
  select: `select ${keyOfLine[dimension]} as key, case type when 'sale' then 1 else 0 end as orders,
                  revenue_micros, cost_micros
             from read.margin_lines
            where reseller_id = $1::text and customer_id = $2::text
              and at >= $3::timestamptz and at < $4::timestamptz`,
  values: [
    reseller,
    customerId,
    fromMs === null ? '-infinity' : instant(fromMs),
    toMs === null ? 'infinity' : instant(toMs),
  ],
})

const sourceOf = ({ accountId, customerId }: Scope, period: Period, dimension: MarginDimension): Source =>
  customerId === null
    ? { name: dimension, select: parts(dimension), values: valuesOf(accountId, period, dimension) }
    : linesOfCustomer(accountId, customerId, period, dimension)

/** The number of rows. A separate query, for a page after the last row, which has no row with the total. */
const countMargins = async (pool: pg.Pool, { name, select, values }: Source): Promise<number> => {
  const { rows } = await pool.query<{ total: number }>({
    name: `count-margins-by-${name}`,
    text: `select count(distinct key) as total from (${select}) as part`,
    values: [...values],
  })
  return rows[0]?.total ?? 0
}

/** A page of the margins within the scope by day (UTC), product or customer, and the total number of rows. */
export const listMargins = async (
  pool: pg.Pool,
  scope: Scope,
  request: Period & {
    readonly groupBy: MarginDimension
    readonly limit: number
    readonly offset: number
  },
): Promise<{ readonly margins: readonly MarginRow[]; readonly total: number }> => {
  const { groupBy, limit, offset } = request
  const source = sourceOf(scope, request, groupBy)
  const { name, select, values } = source
  const { rows } = await pool.query<Row>({
    name: `margins-by-${name}`,
    text: `select *, count(*) over () as total
             from (select key, ${figures} from (${select}) as part group by key) as sums
           order by ${orderOf[groupBy]} limit $${values.length + 1}::bigint offset $${values.length + 2}::bigint`,
    values: [...values, limit, offset],
  })
  return {
    margins: rows.map((row) => ({ key: row.key, ...marginOf(row) })),
    total: rows[0]?.total ?? (offset === 0 ? 0 : await countMargins(pool, source)),
  }
}

/** The margin of a whole period within the scope. */
export const totalMargin = async (client: pg.ClientBase, scope: Scope, period: Period): Promise<Margin> => {
  const { name, select, values } = sourceOf(scope, period, 'day')
  const { rows } = await client.query<Figures>({
    name: `margins-total-by-${name}`,
    text: `select coalesce(sum(orders), 0)::bigint as orders,
                  coalesce(sum(revenue_micros) / 10000, 0)::bigint as revenue,
                  coalesce(sum(cost_micros) / 10000, 0)::bigint as cost
           from (${select}) as part`,
    values: [...values],
  })
  return marginOf(rows[0]!)
}
