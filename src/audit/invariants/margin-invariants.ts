import { resellerBook, serviceBook } from '../../domain/ledger/books.ts'
import { postingsOf } from '../../domain/ledger/postings.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { column, nullable, type RowOf, readTable } from '../../platform/projections/read-model.ts'
import {
  type Context,
  inDollars,
  invariant,
  orderIdOf,
  type Recorded,
  type Report,
  subjectOf,
} from './invariant.ts'

/** The amounts of an order for a customer so far; null before the log has them. Micro-dollars. */
const ordersTable = readTable({
  name: 'audit_margin_orders',
  columns: {
    orderId: column.text(),
    /** From the ledger, then from the order's own stream. */
    chargedRevenue: nullable(column.bigint()),
    chargedCost: nullable(column.bigint()),
    placedRevenue: nullable(column.bigint()),
    placedCost: nullable(column.bigint()),
    /** Sums of refunds: decided, returned by the ledger, recorded on the order's stream. */
    decidedRevenue: column.bigint(),
    decidedCost: column.bigint(),
    returnedRevenue: column.bigint(),
    returnedCost: column.bigint(),
    landedRevenue: column.bigint(),
    landedCost: column.bigint(),
  },
  key: ['orderId'],
})

type OrderRow = RowOf<typeof ordersTable>
/** Both sides of an order for a customer. Micro-dollars. */
type Sides = { readonly revenue: number; readonly cost: number }

const emptyOrder = (orderId: string): OrderRow => ({
  orderId,
  chargedRevenue: null,
  chargedCost: null,
  placedRevenue: null,
  placedCost: null,
  decidedRevenue: 0,
  decidedCost: 0,
  returnedRevenue: 0,
  returnedCost: 0,
  landedRevenue: 0,
  landedCost: 0,
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
  const { chargedRevenue, chargedCost, placedRevenue, placedCost } = row
  if (chargedRevenue === null || chargedCost === null || placedRevenue === null || placedCost === null)
    return row
  if (chargedRevenue !== placedRevenue || chargedCost !== placedCost)
    report(
      'margin-order',
      `order ${row.orderId} was placed at ${sidesText({ revenue: placedRevenue, cost: placedCost })}, paid was ${sidesText({ revenue: chargedRevenue, cost: chargedCost })}`,
    )
  return row
}

const checkPlaced = (
  { data }: Recorded<'OrderCompleted' | 'OrderPlaced' | 'OrderPaid'>,
  row: OrderRow,
  { report }: Context,
): OrderRow => {
  const { revenue, cost } = sidesOf(data.order)
  return checkPaid({ ...row, placedRevenue: revenue, placedCost: cost }, report)
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
      return checkPaid({ ...row, chargedRevenue: amountMicros, chargedCost: costMicros }, report)
    },
    CustomerRefunded: (event, row, { report }) => {
      checkBooks(event, report)
      const returnedRevenue = row.returnedRevenue + event.data.amountMicros
      const returnedCost = row.returnedCost + event.data.costMicros
      if (returnedRevenue > row.decidedRevenue || returnedCost > row.decidedCost)
        report('margin-refund', `more came back of order ${row.orderId} than was decided`)
      return { ...row, returnedRevenue, returnedCost }
    },
    OrderCompleted: checkPlaced,
    OrderPlaced: checkPlaced,
    OrderPaid: checkPlaced,
    RefundDecided: ({ data }, row, { report }) => {
      const { revenue, cost } = sidesOf(data as { amountCents: number; costCents: number })
      const decidedRevenue = row.decidedRevenue + revenue
      const decidedCost = row.decidedCost + cost
      if (decidedRevenue > (row.chargedRevenue ?? 0) || decidedCost > (row.chargedCost ?? 0))
        report('margin-refund', `refunds of order ${row.orderId} come to more than was paid on one side`)
      return { ...row, decidedRevenue, decidedCost }
    },
    OrderRefunded: ({ data }, row, { report }) => {
      const { revenue, cost } = sidesOf(data as { amountCents: number; costCents: number })
      const landedRevenue = row.landedRevenue + revenue
      const landedCost = row.landedCost + cost
      if (landedRevenue > row.returnedRevenue || landedCost > row.returnedCost)
        report('margin-refund', `${sidesText({ revenue, cost })} landed, but less came back`)
      if (data.complete && (landedRevenue !== row.chargedRevenue || landedCost !== row.chargedCost))
        report(
          'margin-refund',
          `all of order ${row.orderId} is refunded, but ${sidesText({ revenue: landedRevenue, cost: landedCost })} came back of ${sidesText({ revenue: row.chargedRevenue ?? 0, cost: row.chargedCost ?? 0 })}`,
        )
      return { ...row, landedRevenue, landedCost }
    },
  },
})
