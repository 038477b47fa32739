import { resellerBook, serviceBook } from '../../domain/ledger/books.ts'
import { postingsOf } from '../../domain/ledger/postings.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import {
  bigint,
  type Context,
  inDollars,
  invariant,
  nullable,
  orderIdOf,
  type Recorded,
  type Report,
  type RowOf,
  ruleTable,
  subjectOf,
  text,
} from './invariant.ts'

/** The amounts of an order for a customer so far; null before the log has them. Micro-dollars. */
const ordersTable = ruleTable('audit_margin_orders', {
  order_id: text,
  /** From the ledger, then from the order's own stream. */
  charged_revenue: nullable(bigint),
  charged_cost: nullable(bigint),
  placed_revenue: nullable(bigint),
  placed_cost: nullable(bigint),
  /** Sums of refunds: decided, returned by the ledger, recorded on the order's stream. */
  decided_revenue: bigint,
  decided_cost: bigint,
  returned_revenue: bigint,
  returned_cost: bigint,
  landed_revenue: bigint,
  landed_cost: bigint,
})

type OrderRow = RowOf<typeof ordersTable>
/** Both sides of an order for a customer. Micro-dollars. */
type Sides = { readonly revenue: number; readonly cost: number }

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

const sidesOf = (amounts: { readonly amountCents: number; readonly costCents?: number }): Sides => ({
  revenue: centsToMicros(amounts.amountCents),
  cost: centsToMicros(amounts.costCents ?? 0),
})

const sidesText = ({ revenue, cost }: Sides): string =>
  `revenue ${inDollars(revenue)}, cost ${inDollars(cost)}`

/**
 * Checks that the event books the amounts that it moves, in the reseller's book and in the service's. The reseller's
 * cost is the service's revenue.
 */
const checkBooks = (event: Recorded<'CustomerCharged' | 'CustomerRefunded'>, report: Report): void => {
  const accountId = subjectOf(event) as AccountId
  const postings = postingsOf(event, { accountId, reseller: true })
  const sum = (book: string, isCounted: (account: string) => boolean): number =>
    postings
      .filter((posting) => posting.book === book && isCounted(posting.account))
      .reduce((total, { debitMicros, creditMicros }) => total + debitMicros - creditMicros, 0)
  const revenue = 0 - sum(resellerBook(accountId), (account) => account === 'revenue:sales')
  const cost = sum(resellerBook(accountId), (account) => account === 'expenses:cost-of-sales')
  const service = 0 - sum(serviceBook, (account) => account.startsWith('revenue:orders:'))
  const sign = event.type === 'CustomerCharged' ? 1 : -1
  const moved = { revenue: sign * event.data.amountMicros, cost: sign * event.data.costMicros }
  if (moved.revenue !== revenue || moved.cost !== cost)
    report(
      'margin-books',
      `it moves ${sidesText(moved)}, the reseller's book says ${sidesText({ revenue, cost })}`,
    )
  else if (moved.cost !== service)
    report(
      'margin-books',
      `it costs ${inDollars(moved.cost)}, the service's book earns ${inDollars(service)}`,
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

const checkPlaced = (
  { data }: Recorded<'OrderCompleted' | 'OrderPlaced' | 'OrderPaid'>,
  row: OrderRow,
  { report }: Context,
): OrderRow => {
  const { revenue, cost } = sidesOf(data.order)
  return checkPaid({ ...row, placed_revenue: revenue, placed_cost: cost }, report)
}

/**
 * Revenue, cost and margin of resellers, derived again from the order streams and compared with both books, order by
 * order. The price of an order for a customer equals the paid and the booked amount, on both sides. Refunds never
 * exceed the paid amount on either side, and equal it when they are marked as complete.
 */
export const marginRules = invariant({
  name: 'audit-margins',
  version: 2,
  table: ordersTable,
  key: (event) => {
    switch (event.type) {
      case 'OrderCompleted':
      case 'OrderPlaced':
      case 'OrderPaid':
        return event.data.order.customerId === null ? null : event.data.order.orderId
      case 'RefundDecided':
      case 'OrderRefunded':
        return event.data.costCents === undefined ? null : event.data.orderId
      default:
        return orderIdOf(event)
    }
  },
  initial: emptyOrder,
  on: {
    CustomerCharged: (event, row, { report }) => {
      checkBooks(event, report)
      const { order, amountMicros, costMicros } = event.data
      const priced = sidesOf(order)
      if (priced.revenue !== amountMicros || priced.cost !== costMicros)
        report(
          'margin-order',
          `it takes ${sidesText({ revenue: amountMicros, cost: costMicros })}, its order says ${sidesText(priced)}`,
        )
      return checkPaid({ ...row, charged_revenue: amountMicros, charged_cost: costMicros }, report)
    },
    CustomerRefunded: (event, row, { report }) => {
      checkBooks(event, report)
      const returned_revenue = row.returned_revenue + event.data.amountMicros
      const returned_cost = row.returned_cost + event.data.costMicros
      if (returned_revenue > row.decided_revenue || returned_cost > row.decided_cost)
        report('margin-refund', `more came back of order ${row.order_id} than was decided`)
      return { ...row, returned_revenue, returned_cost }
    },
    OrderCompleted: checkPlaced,
    OrderPlaced: checkPlaced,
    OrderPaid: checkPlaced,
    RefundDecided: ({ data }, row, { report }) => {
      const { revenue, cost } = sidesOf(data as { amountCents: number; costCents: number })
      const decided_revenue = row.decided_revenue + revenue
      const decided_cost = row.decided_cost + cost
      if (decided_revenue > (row.charged_revenue ?? 0) || decided_cost > (row.charged_cost ?? 0))
        report('margin-refund', `refunds of order ${row.order_id} come to more than was paid on one side`)
      return { ...row, decided_revenue, decided_cost }
    },
    OrderRefunded: ({ data }, row, { report }) => {
      const { revenue, cost } = sidesOf(data as { amountCents: number; costCents: number })
      const landed_revenue = row.landed_revenue + revenue
      const landed_cost = row.landed_cost + cost
      if (landed_revenue > row.returned_revenue || landed_cost > row.returned_cost)
        report('margin-refund', `${sidesText({ revenue, cost })} landed, but less came back`)
      if (data.complete && (landed_revenue !== row.charged_revenue || landed_cost !== row.charged_cost))
        report(
          'margin-refund',
          `all of order ${row.order_id} is refunded, but ${sidesText({ revenue: landed_revenue, cost: landed_cost })} came back of ${sidesText({ revenue: row.charged_revenue ?? 0, cost: row.charged_cost ?? 0 })}`,
        )
      return { ...row, landed_revenue, landed_cost }
    },
  },
})
