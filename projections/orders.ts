import type { OrderEvent } from '../src/market/orders/events.ts'
import { type OrderStatus, orderStatuses } from '../src/market/orders/fold.ts'
import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import type { OrderDetails, ShownDetails } from '../src/terms/order-details.ts'
import type { ReadModel, Rows, Table } from './engine/read-model.ts'

/**
 * One order, as `GET /orders/{id}` shows it. `details` is a JSON text of the order as it was decided, less what no read
 * shows (two digests, which the log keeps) and what has a column: a third of the row. As `jsonb` it took another 25 µs
 * of Postgres a row, a third of the row's cost (measured at 16 to 500 rows a batch).
 */
export type OrderRow = {
  readonly order_id: string
  readonly account_id: string
  /** The reseller's customer whom it is for; null for the account itself. */
  readonly customer_id: string | null
  readonly status: OrderStatus
  readonly created_at: string
  readonly details: string
  readonly balance_cents: number
  readonly plan_id: string | null
  readonly proxy_ids: readonly string[]
  readonly fulfilled_at: string | null
  readonly failed_at: string | null
  readonly failure_reason: string | null
  readonly refunded_at: string | null
  readonly refunded_cents: number
  /** Of an order for a customer, what came back to the reseller's wallet; null: nothing did. */
  readonly refunded_cost_cents: number | null
}

/** How many orders of an account are in each status, so that a list of 100,000 orders knows its total at once. */
export type OrderCountRow = { readonly account_id: string } & Readonly<Record<OrderStatus, number>>

export const ordersTable: Table<OrderRow> = {
  name: 'orders',
  columns: {
    order_id: { type: 'text' },
    account_id: { type: 'text' },
    customer_id: { type: 'text', nullable: true },
    status: { type: 'text' },
    created_at: { type: 'timestamptz' },
    details: { type: 'text' },
    balance_cents: { type: 'bigint' },
    plan_id: { type: 'text', nullable: true },
    proxy_ids: { type: 'text[]' },
    fulfilled_at: { type: 'timestamptz', nullable: true },
    failed_at: { type: 'timestamptz', nullable: true },
    failure_reason: { type: 'text', nullable: true },
    refunded_at: { type: 'timestamptz', nullable: true },
    refunded_cents: { type: 'bigint' },
    refunded_cost_cents: { type: 'bigint', nullable: true },
  },
  key: ['order_id'],
  // Lists go by the order's id after its time. The few of one millisecond are sorted when they are read: with their ids
  // an index would be twice as large, and every order writes two of them.
  indexes: [
    'account_id, created_at desc',
    // The orders of one customer of a reseller; an account's own are not in it.
    'account_id, customer_id, created_at desc where customer_id is not null',
    // Nearly every order is completed, and those are found by the index above.
    "account_id, status, created_at desc where status <> 'completed'",
    // The orders of a plan: a list of them in the plan's own row made each top-up write two kilobytes.
    'plan_id, created_at desc where plan_id is not null',
  ],
}

const eachStatus = <Value>(value: Value): Readonly<Record<OrderStatus, Value>> =>
  Object.fromEntries(orderStatuses.map((status) => [status, value])) as Record<OrderStatus, Value>

const noOrders = eachStatus(0)

const orderCountsTable: Table<OrderCountRow> = {
  name: 'order_counts',
  columns: {
    account_id: { type: 'text' },
    ...eachStatus({ type: 'bigint' as const }),
  },
  key: ['account_id'],
  indexes: [],
  rewritten: true,
}

/** What `OrderRow.details` holds. */
export type KeptDetails = Omit<ShownDetails, 'orderId' | 'accountId' | 'customerId' | 'createdAt'>

const detailsOf = (order: OrderDetails): string => {
  const { orderId: _, accountId: _a, customerId: _u, createdAt: _c, ...details } = order
  const { catalogDigest: _d, fingerprint: _f, ...kept } = details
  return JSON.stringify(kept satisfies KeptDetails)
}

const rowOf = (order: OrderDetails, balanceCents: number, status: OrderStatus): OrderRow => ({
  order_id: order.orderId,
  account_id: order.accountId,
  customer_id: order.customerId,
  status,
  created_at: order.createdAt,
  details: detailsOf(order),
  balance_cents: balanceCents,
  plan_id: order.planId,
  proxy_ids: [],
  fulfilled_at: null,
  failed_at: null,
  failure_reason: null,
  refunded_at: null,
  refunded_cents: 0,
  refunded_cost_cents: null,
})

/** Counts an order that went from one status to another; null: it is new. */
const count = (rows: Rows, accountId: string, from: OrderStatus | null, to: OrderStatus): void => {
  const counts = rows.get(orderCountsTable, [accountId]) ?? { account_id: accountId, ...noOrders }
  const left = from === null ? counts : { ...counts, [from]: counts[from] - 1 }
  rows.put(orderCountsTable, { ...left, [to]: left[to] + 1 })
}

/** Orders with their money and their end, and how many an account has in each status. */
export const orders: ReadModel = {
  name: 'orders',
  version: 9,
  tables: [ordersTable, orderCountsTable],
  reads: (recorded) => {
    const event = recorded as RecordedEvent<OrderEvent>
    const counts = (accountId: string) => ({ table: orderCountsTable.name, key: [accountId] })
    switch (event.type) {
      case 'OrderCompleted':
      case 'OrderPlaced':
        return [counts(event.data.order.accountId)]
      case 'OrderAwaitingPayment': {
        const { orderId, accountId } = event.data.order
        return [{ table: ordersTable.name, key: [orderId] }, counts(accountId)]
      }
      case 'OrderPaid':
      case 'OrderCanceled':
      case 'OrderFulfilled':
      case 'OrderFailed':
      case 'OrderRefunded':
        return [{ table: ordersTable.name, key: [event.data.orderId] }, counts(event.data.accountId)]
      default:
        return []
    }
  },
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<OrderEvent>
    const change = (orderId: string, fields: Partial<OrderRow>): void => {
      const row = rows.get(ordersTable, [orderId])
      if (!row) throw new Error(`${event.type} of order ${orderId}, which was never placed`)
      const next = { ...row, ...fields }
      rows.put(ordersTable, next)
      if (next.status !== row.status) count(rows, row.account_id, row.status, next.status)
    }
    switch (event.type) {
      case 'OrderCompleted': {
        const { order, balanceCents, proxyIds, fulfilledAt } = event.data
        const row = rowOf(order, balanceCents, 'completed')
        rows.insert(ordersTable, { ...row, proxy_ids: proxyIds, fulfilled_at: fulfilledAt })
        return count(rows, order.accountId, null, 'completed')
      }
      case 'OrderPlaced': {
        const { order, balanceCents } = event.data
        rows.insert(ordersTable, rowOf(order, balanceCents, 'processing'))
        return count(rows, order.accountId, null, 'processing')
      }
      case 'OrderAwaitingPayment': {
        const { order, balanceCents } = event.data
        const before = rows.get(ordersTable, [order.orderId])
        // Nothing of it belongs to a plan before it is paid.
        rows.put(ordersTable, { ...rowOf(order, balanceCents, 'awaiting_payment'), plan_id: null })
        return before ? undefined : count(rows, order.accountId, null, 'awaiting_payment')
      }
      case 'OrderPaid': {
        const { orderId, order, balanceCents } = event.data
        const paid = {
          details: detailsOf(order),
          balance_cents: balanceCents,
          plan_id: order.planId,
        }
        const awaited = rows.get(ordersTable, [orderId])?.status === 'awaiting_payment'
        return change(orderId, awaited ? { status: 'processing', ...paid } : paid)
      }
      case 'OrderCanceled':
        return change(event.data.orderId, { status: 'canceled' })
      case 'OrderFulfilled': {
        const { orderId, planId, proxyIds, fulfilledAt } = event.data
        const fields = { plan_id: planId, proxy_ids: proxyIds, fulfilled_at: fulfilledAt }
        return change(orderId, { status: 'completed', ...fields })
      }
      case 'OrderFailed': {
        const { orderId, reason, failedAt } = event.data
        return change(orderId, { status: 'failed', failure_reason: reason, failed_at: failedAt })
      }
      case 'OrderRefunded': {
        const { orderId, refundedCents, costCents, complete, refundedAt } = event.data
        const before = rows.get(ordersTable, [orderId])?.refunded_cost_cents ?? 0
        const fields = {
          refunded_cents: refundedCents,
          refunded_at: refundedAt,
          ...(costCents !== undefined && { refunded_cost_cents: before + costCents }),
        }
        return change(orderId, complete ? { status: 'refunded', ...fields } : fields)
      }
    }
  },
}
