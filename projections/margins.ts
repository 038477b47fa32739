import type { CustomerCharged, CustomerRefunded } from '../src/money/ledger/customer-events.ts'
import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import type { ReadModel, Rows, Table } from './engine/read-model.ts'
import { ownerOf } from './stream-owner.ts'

/** One sale to a reseller's customer, or one refund of it, which is negative. Whole cents in micro-dollars. */
export type MarginLineRow = {
  /** The order of a sale, the refund of a refund: each is there once. */
  readonly line_id: string
  readonly type: 'sale' | 'refund'
  readonly reseller_id: string
  readonly at: string
  /** The money event that the line stands for. */
  readonly position: number
  readonly event_id: string
  readonly order_id: string
  readonly customer_id: string
  readonly product_id: string
  readonly quantity: number
  readonly revenue_micros: number
  readonly cost_micros: number
}

export type MarginDimension = 'day' | 'product' | 'customer'

/** What one day or month (UTC) brought a reseller: in all, of a product, or of a customer. */
export type MarginSumRow = {
  readonly reseller_id: string
  readonly dimension: MarginDimension
  /** Customers are many and buy seldom: theirs are summed by month as well, so that a year of them is read at once. */
  readonly span: 'day' | 'month'
  /** `2026-11-21`, or of a month `2026-11`. */
  readonly starts: string
  /** The day, the product's id or the customer's id. */
  readonly key: string
  /** How many sales. */
  readonly orders: number
  readonly revenue_micros: number
  readonly cost_micros: number
}

export const marginLinesTable: Table<MarginLineRow> = {
  name: 'margin_lines',
  columns: {
    line_id: { type: 'text' },
    type: { type: 'text' },
    reseller_id: { type: 'text' },
    at: { type: 'timestamptz' },
    position: { type: 'bigint' },
    event_id: { type: 'text' },
    order_id: { type: 'text' },
    customer_id: { type: 'text' },
    product_id: { type: 'text' },
    quantity: { type: 'bigint' },
    revenue_micros: { type: 'bigint' },
    cost_micros: { type: 'bigint' },
  },
  key: ['line_id'],
  indexes: [
    'reseller_id, at, position',
    // The statement of one customer.
    'reseller_id, customer_id, at, position',
  ],
}

export const marginSumsTable: Table<MarginSumRow> = {
  name: 'margin_sums',
  columns: {
    reseller_id: { type: 'text' },
    dimension: { type: 'text' },
    span: { type: 'text' },
    starts: { type: 'text' },
    key: { type: 'text' },
    orders: { type: 'bigint' },
    revenue_micros: { type: 'bigint' },
    cost_micros: { type: 'bigint' },
  },
  key: ['reseller_id', 'dimension', 'span', 'starts', 'key'],
  indexes: [],
  rewritten: true,
}

type MarginEvent = RecordedEvent<CustomerCharged | CustomerRefunded>

const isMargin = (event: RecordedEvent): event is MarginEvent =>
  event.type === 'CustomerCharged' || event.type === 'CustomerRefunded'

/** `2026-11-21` of `2026-11-21T02:30:00.000Z`. */
const dayOf = (at: string): string => at.slice(0, 10)
/** `2026-11` */
const monthOf = (at: string): string => at.slice(0, 7)

const lineOf = (event: MarginEvent, rows: Rows): MarginLineRow => {
  const at = event.metadata.recordedAt
  const { position, id: event_id } = event
  if (event.type === 'CustomerCharged') {
    const { order, customerId, amountMicros, costMicros } = event.data
    return {
      line_id: order.orderId,
      type: 'sale',
      reseller_id: ownerOf(event.stream),
      at,
      position,
      event_id,
      order_id: order.orderId,
      customer_id: customerId,
      product_id: order.productId,
      quantity: order.quantity,
      revenue_micros: amountMicros,
      cost_micros: costMicros,
    }
  }
  const { orderId, reference, amountMicros, costMicros } = event.data
  const sale = rows.get(marginLinesTable, [orderId])
  if (!sale) throw new Error(`a refund of order ${orderId}, which was never charged`)
  return {
    ...sale,
    line_id: reference,
    type: 'refund',
    at,
    position,
    event_id,
    revenue_micros: 0 - amountMicros,
    cost_micros: 0 - costMicros,
  }
}

/** Which sum, without its figures: the key of its row. */
type SumKey = readonly [reseller: string, MarginDimension, MarginSumRow['span'], starts: string, key: string]

/** The sums of a day that are known before the product is: all of the day, and of the customer by day and month. */
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
  const { reseller_id: reseller, at } = line
  for (const sumKey of [
    ...customerSums(reseller, at, line.customer_id),
    productSum(reseller, at, line.product_id),
  ]) {
    const sum = rows.get(marginSumsTable, sumKey)
    const [reseller_id, dimension, span, starts, key] = sumKey
    rows.put(marginSumsTable, {
      reseller_id,
      dimension,
      span,
      starts,
      key,
      orders: (sum?.orders ?? 0) + (line.type === 'sale' ? 1 : 0),
      revenue_micros: (sum?.revenue_micros ?? 0) + line.revenue_micros,
      cost_micros: (sum?.cost_micros ?? 0) + line.cost_micros,
    })
  }
}

const nothing: readonly never[] = []

/**
 * What resellers earn from their customers: the lines of their statements, and their sums by day, product and customer,
 * of customers by month too.
 * A refund stands on its own date. An order of a reseller for itself is no sale and has no line.
 */
export const margins: ReadModel = {
  name: 'margins',
  version: 4,
  tables: [marginLinesTable, marginSumsTable],
  reads: (event) => {
    if (!isMargin(event)) return nothing
    const reseller = ownerOf(event.stream)
    const { recordedAt } = event.metadata
    const sum = (key: SumKey) => ({ table: marginSumsTable.name, key })
    const known = customerSums(reseller, recordedAt, event.data.customerId).map(sum)
    // The product of a refund stands in its sale alone: where the day has none of it yet, that sum is loaded by itself.
    return event.type === 'CustomerCharged'
      ? [...known, sum(productSum(reseller, recordedAt, event.data.order.productId))]
      : [...known, { table: marginLinesTable.name, key: [event.data.orderId] }]
  },
  apply: (event, rows) => {
    if (!isMargin(event)) return
    const line = lineOf(event, rows)
    rows.insert(marginLinesTable, line)
    addTo(rows, line)
  },
}
