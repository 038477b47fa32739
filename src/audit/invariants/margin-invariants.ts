import { resellerBook, serviceBook } from '../../domain/ledger/books.ts'
import type { CustomerCharged, CustomerRefunded } from '../../domain/ledger/events.ts'
import { postingsOf } from '../../domain/ledger/postings.ts'
import type {
  OrderCompleted,
  OrderPaid,
  OrderPlaced,
  OrderRefunded,
  RefundDecided,
} from '../../domain/orders/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { ReadModel, Table } from '../../platform/projections/read-model.ts'
import { inDollars, recordViolation } from './violation.ts'

/** Both sides of an order for a customer. Micro-dollars. */
type Sides = { readonly revenue: number; readonly cost: number }

/** The amounts of an order for a customer so far; null before the log has them. */
type OrderRow = {
  order_id: string
  /** From the ledger, then from the order's own stream. */
  charged_revenue: number | null
  charged_cost: number | null
  placed_revenue: number | null
  placed_cost: number | null
  /** Sums of refunds: decided, returned by the ledger, recorded on the order's stream. */
  decided_revenue: number
  decided_cost: number
  returned_revenue: number
  returned_cost: number
  landed_revenue: number
  landed_cost: number
}

const ordersTable: Table<OrderRow> = {
  name: 'audit_margin_orders',
  columns: {
    order_id: { type: 'text' },
    charged_revenue: { type: 'bigint', nullable: true },
    charged_cost: { type: 'bigint', nullable: true },
    placed_revenue: { type: 'bigint', nullable: true },
    placed_cost: { type: 'bigint', nullable: true },
    decided_revenue: { type: 'bigint' },
    decided_cost: { type: 'bigint' },
    returned_revenue: { type: 'bigint' },
    returned_cost: { type: 'bigint' },
    landed_revenue: { type: 'bigint' },
    landed_cost: { type: 'bigint' },
  },
  key: ['order_id'],
  indexes: [],
}

type LedgerRecord = RecordedEvent<CustomerCharged | CustomerRefunded>
type MarginRuleEvent =
  | LedgerRecord
  | RecordedEvent<OrderCompleted | OrderPlaced | OrderPaid | RefundDecided | OrderRefunded>

const ledgerPrefix = 'ledger-'

const resellerOf = (event: LedgerRecord): AccountId => event.stream.slice(ledgerPrefix.length) as AccountId

/** The order for a customer that an event is about; null without one. */
const orderIdOf = (event: MarginRuleEvent): string | null => {
  switch (event.type) {
    case 'CustomerCharged':
      return event.data.order.orderId
    case 'CustomerRefunded':
      return event.data.orderId
    case 'OrderCompleted':
    case 'OrderPlaced':
    case 'OrderPaid':
      return event.data.order.customerId === null ? null : event.data.order.orderId
    case 'RefundDecided':
    case 'OrderRefunded':
      return event.data.costCents === undefined ? null : event.data.orderId
    default:
      return null
  }
}

const emptyOrder = (order_id: string): OrderRow => ({
  order_id,
  charged_revenue: null,
  charged_cost: null,
  placed_revenue: null,
  placed_cost: null,
  decided_revenue: 0,
  decided_cost: 0,
  returned_revenue: 0,
  returned_cost: 0,
  landed_revenue: 0,
  landed_cost: 0,
})

/** The revenue and cost that the event books in the reseller's book, and the revenue in the service's book. */
const bookedBy = (event: LedgerRecord): Sides & { readonly service: number } => {
  const accountId = resellerOf(event)
  const sum = (book: string, isCounted: (account: string) => boolean): number =>
    postingsOf(event, { accountId, reseller: true })
      .filter((posting) => posting.book === book && isCounted(posting.account))
      .reduce((total, { debitMicros, creditMicros }) => total + debitMicros - creditMicros, 0)
  return {
    revenue: 0 - sum(resellerBook(accountId), (account) => account === 'revenue:sales'),
    cost: sum(resellerBook(accountId), (account) => account === 'expenses:cost-of-sales'),
    service: 0 - sum(serviceBook, (account) => account.startsWith('revenue:orders:')),
  }
}

const sidesOf = ({
  amountCents,
  costCents = 0,
}: {
  readonly amountCents: number
  readonly costCents?: number
}): Sides => ({ revenue: centsToMicros(amountCents), cost: centsToMicros(costCents) })

const sidesText = ({ revenue, cost }: Sides): string =>
  `revenue ${inDollars(revenue)}, cost ${inDollars(cost)}`

type Report = (rule: string, problem: string) => void

/** Checks that the event books the amounts that it moves. The reseller's cost is the service's revenue. */
const checkBooks = (event: LedgerRecord, report: Report): void => {
  const { revenue, cost, service } = bookedBy(event)
  const sign = event.type === 'CustomerCharged' ? 1 : -1
  const movedSides = { revenue: sign * event.data.amountMicros, cost: sign * event.data.costMicros }
  if (movedSides.revenue !== revenue || movedSides.cost !== cost)
    report(
      'margin-books',
      `it moves ${sidesText(movedSides)}, the reseller's book says ${sidesText({ revenue, cost })}`,
    )
  else if (movedSides.cost !== service)
    report(
      'margin-books',
      `it costs ${inDollars(movedSides.cost)}, the service's book earns ${inDollars(service)}`,
    )
}

/** Compares the ledger with the order's own stream, once both have the amounts. */
const checkPaid = (row: OrderRow, report: Report): OrderRow => {
  const { charged_revenue, charged_cost, placed_revenue, placed_cost } = row
  if (charged_revenue === null || charged_cost === null || placed_revenue === null || placed_cost === null)
    return row
  if (charged_revenue !== placed_revenue || charged_cost !== placed_cost)
    report(
      'margin-order',
      `order ${row.order_id} was placed at ${sidesText({ revenue: placed_revenue, cost: placed_cost })}, paid was ${sidesText({ revenue: charged_revenue, cost: charged_cost })}`,
    )
  return row
}

const applyCharged = (row: OrderRow, event: RecordedEvent<CustomerCharged>, report: Report): OrderRow => {
  checkBooks(event, report)
  const { order, amountMicros, costMicros } = event.data
  const pricedSides = sidesOf(order)
  if (pricedSides.revenue !== amountMicros || pricedSides.cost !== costMicros)
    report(
      'margin-order',
      `it takes ${sidesText({ revenue: amountMicros, cost: costMicros })}, its order says ${sidesText(pricedSides)}`,
    )
  return checkPaid({ ...row, charged_revenue: amountMicros, charged_cost: costMicros }, report)
}

const applyReturned = (row: OrderRow, event: RecordedEvent<CustomerRefunded>, report: Report): OrderRow => {
  checkBooks(event, report)
  const returned_revenue = row.returned_revenue + event.data.amountMicros
  const returned_cost = row.returned_cost + event.data.costMicros
  if (returned_revenue > row.decided_revenue || returned_cost > row.decided_cost)
    report('margin-refund', `more came back of order ${row.order_id} than was decided`)
  return { ...row, returned_revenue, returned_cost }
}

const applyPlaced = (
  row: OrderRow,
  event: RecordedEvent<OrderCompleted | OrderPlaced | OrderPaid>,
  report: Report,
): OrderRow => {
  const { revenue, cost } = sidesOf(event.data.order)
  return checkPaid({ ...row, placed_revenue: revenue, placed_cost: cost }, report)
}

const applyDecided = (row: OrderRow, event: RecordedEvent<RefundDecided>, report: Report): OrderRow => {
  const { revenue, cost } = sidesOf(event.data)
  const decided_revenue = row.decided_revenue + revenue
  const decided_cost = row.decided_cost + cost
  if (decided_revenue > (row.charged_revenue ?? 0) || decided_cost > (row.charged_cost ?? 0))
    report('margin-refund', `refunds of order ${row.order_id} come to more than was paid on one side`)
  return { ...row, decided_revenue, decided_cost }
}

const applyLanded = (row: OrderRow, event: RecordedEvent<OrderRefunded>, report: Report): OrderRow => {
  const { revenue, cost } = sidesOf(event.data)
  const landed_revenue = row.landed_revenue + revenue
  const landed_cost = row.landed_cost + cost
  if (landed_revenue > row.returned_revenue || landed_cost > row.returned_cost)
    report('margin-refund', `${sidesText({ revenue, cost })} landed, but less came back`)
  if (event.data.complete && (landed_revenue !== row.charged_revenue || landed_cost !== row.charged_cost))
    report(
      'margin-refund',
      `all of order ${row.order_id} is refunded, but ${sidesText({ revenue: landed_revenue, cost: landed_cost })} came back of ${sidesText({ revenue: row.charged_revenue ?? 0, cost: row.charged_cost ?? 0 })}`,
    )
  return { ...row, landed_revenue, landed_cost }
}

const applyEvent = (previous: OrderRow, event: MarginRuleEvent, report: Report): OrderRow => {
  switch (event.type) {
    case 'CustomerCharged':
      return applyCharged(previous, event, report)
    case 'CustomerRefunded':
      return applyReturned(previous, event, report)
    case 'OrderCompleted':
    case 'OrderPlaced':
    case 'OrderPaid':
      return applyPlaced(previous, event, report)
    case 'RefundDecided':
      return applyDecided(previous, event, report)
    case 'OrderRefunded':
      return applyLanded(previous, event, report)
    default:
      return event satisfies never
  }
}

/**
 * Revenue, cost and margin of resellers, derived again from the order streams and compared with both books, order by
 * order. The price of an order for a customer equals the paid and the booked amount, on both sides. Refunds never
 * exceed the paid amount on either side, and equal it when they are marked as complete.
 */
export const marginRules: ReadModel = {
  name: 'audit-margins',
  version: 1,
  tables: [ordersTable],
  takes: {
    types: new Set([
      'CustomerCharged',
      'CustomerRefunded',
      'OrderCompleted',
      'OrderPlaced',
      'OrderPaid',
      'RefundDecided',
      'OrderRefunded',
    ]),
  },
  reads: (event) => {
    const orderId = orderIdOf(event as MarginRuleEvent)
    return orderId === null ? [] : [{ table: ordersTable.name, key: [orderId] }]
  },
  apply: (recorded, rows) => {
    const event = recorded as MarginRuleEvent
    const orderId = orderIdOf(event)
    if (orderId === null) return
    const previous = rows.get(ordersTable, [orderId]) ?? emptyOrder(orderId)
    rows.put(
      ordersTable,
      applyEvent(previous, event, (rule, problem) => recordViolation(rows, event, rule, problem)),
    )
  },
}
