import type { RecordedEvent } from '../src/eventstore/event.ts'
import type { CustomerCharged, CustomerRefunded } from '../src/ledger/customer-events.ts'
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

/** What one day (UTC) brought a reseller: in all, of a product, or of a customer. */
export type MarginSumRow = {
  readonly reseller_id: string
  readonly dimension: MarginDimension
  /** The day, the product's id or the customer's id. */
  readonly key: string
  /** `2026-11-21` */
  readonly day: string
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
  indexes: ['reseller_id, at, position'],
}

export const marginSumsTable: Table<MarginSumRow> = {
  name: 'margin_sums',
  columns: {
    reseller_id: { type: 'text' },
    dimension: { type: 'text' },
    key: { type: 'text' },
    day: { type: 'text' },
    orders: { type: 'bigint' },
    revenue_micros: { type: 'bigint' },
    cost_micros: { type: 'bigint' },
  },
  key: ['reseller_id', 'dimension', 'day', 'key'],
  indexes: [],
}

type MarginEvent = RecordedEvent<CustomerCharged | CustomerRefunded>

const isMargin = (event: RecordedEvent): event is MarginEvent =>
  event.type === 'CustomerCharged' || event.type === 'CustomerRefunded'

/** `2026-11-21` of `2026-11-21T02:30:00.000Z`. */
const dayOf = (at: string): string => at.slice(0, 10)

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

const sumKeys = (line: MarginLineRow): readonly (readonly [MarginDimension, string])[] => [
  ['day', dayOf(line.at)],
  ['product', line.product_id],
  ['customer', line.customer_id],
]

const addTo = (rows: Rows, line: MarginLineRow): void => {
  const { reseller_id } = line
  const day = dayOf(line.at)
  for (const [dimension, key] of sumKeys(line)) {
    const sum = rows.get(marginSumsTable, [reseller_id, dimension, day, key])
    rows.put(marginSumsTable, {
      reseller_id,
      dimension,
      key,
      day,
      orders: (sum?.orders ?? 0) + (line.type === 'sale' ? 1 : 0),
      revenue_micros: (sum?.revenue_micros ?? 0) + line.revenue_micros,
      cost_micros: (sum?.cost_micros ?? 0) + line.cost_micros,
    })
  }
}

const nothing: readonly never[] = []

/**
 * What resellers earn from their customers: the lines of their statements, and their sums by day, product and customer.
 * A refund stands on its own date. An order of a reseller for itself is no sale and has no line.
 */
export const margins: ReadModel = {
  name: 'margins',
  version: 1,
  tables: [marginLinesTable, marginSumsTable],
  reads: (event) => {
    if (!isMargin(event)) return nothing
    const reseller = ownerOf(event.stream)
    const day = dayOf(event.metadata.recordedAt)
    const sum = (dimension: MarginDimension, key: string) => ({
      table: marginSumsTable.name,
      key: [reseller, dimension, day, key],
    })
    const known = [sum('day', day), sum('customer', event.data.customerId)]
    // The product of a refund stands in its sale alone: where the day has none of it yet, that sum is loaded by itself.
    return event.type === 'CustomerCharged'
      ? [...known, sum('product', event.data.order.productId)]
      : [...known, { table: marginLinesTable.name, key: [event.data.orderId] }]
  },
  apply: (event, rows) => {
    if (!isMargin(event)) return
    const line = lineOf(event, rows)
    rows.insert(marginLinesTable, line)
    addTo(rows, line)
  },
}
