import type { Kysely } from 'kysely'
import { type DepositStatus, isPayable } from '../src/domain/deposits/fold.ts'
import type { OrderEvent } from '../src/domain/orders/events.ts'
import { type Order, type OrderStatus, orderStatuses, type ShownOrder } from '../src/domain/orders/fold.ts'
import type { OrderDetails, ShownDetails } from '../src/domain/shared/order-terms.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId, CustomerId } from '../src/kernel/ids.ts'
import type { ListScope, AccountScope as Scope } from '../src/kernel/scopes.ts'
import { countedPage, sql } from '../src/platform/postgres/kysely.ts'
import type { ReadModel, Rows, Table } from '../src/platform/projections/read-model.ts'
import type { DepositRow } from './deposits.ts'
import type { OrderPaymentRow } from './order-payments.ts'
import type { DepositPagesDatabase, PayUrlOf, StoredPages } from './other-tables.ts'

/** The read tables of the queries in this file. */
type QueriedTables = {
  'read.orders': OrderRow
  'read.order_counts': OrderCountRow
  'read.order_payments': OrderPaymentRow
  'read.deposits': DepositRow
}

/**
 * One order for `GET /orders/{id}`. `details` is a JSON text of the order as it was decided, without two digests,
 * which are only in the log, and without the values of other columns. It is a third of the row. As `jsonb` it would
 * take another 25 µs of Postgres per row, a third of the row's cost (measured at 16 to 500 rows per batch).
 */
export type OrderRow = {
  readonly order_id: string
  readonly account_id: string
  /** The reseller's customer of the order; null for the account itself. */
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
  /** For an order of a customer, the refund to the reseller's wallet; null: none. */
  readonly refunded_cost_cents: number | null
}

/** The number of an account's orders in each status, so that the total of a list of 100,000 orders is known at once. */
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
  // Lists are ordered by time and then by the order's id. The few orders of one millisecond are sorted on read: with
  // the ids an index would be twice as large, and every order writes three of them.
  indexes: [
    'account_id, created_at desc',
    // The orders of one customer of a reseller. Orders of the account itself are not in this index.
    'account_id, customer_id, created_at desc where customer_id is not null',
    // Nearly every order is completed. Completed orders are found by the index above.
    "account_id, status, created_at desc where status <> 'completed'",
    // The orders of all accounts, for operators.
    'created_at desc',
    "status, created_at desc where status <> 'completed'",
    // The orders of a plan. With a list of them in the plan's own row each top-up wrote two kilobytes.
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

/** The contents of `OrderRow.details`. */
export type StoredDetails = Omit<ShownDetails, 'orderId' | 'accountId' | 'customerId' | 'createdAt'>

const detailsOf = (order: OrderDetails): string => {
  const { orderId: _, accountId: _a, customerId: _u, createdAt: _c, ...details } = order
  const { catalogDigest: _d, fingerprint: _f, ...storedDetails } = details
  return JSON.stringify(storedDetails satisfies StoredDetails)
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

/** Counts a change of an order's status; null: the order is new. */
const count = (rows: Rows, accountId: string, from: OrderStatus | null, to: OrderStatus): void => {
  const counts = rows.get(orderCountsTable, [accountId]) ?? { account_id: accountId, ...noOrders }
  const decremented = from === null ? counts : { ...counts, [from]: counts[from] - 1 }
  rows.put(orderCountsTable, { ...decremented, [to]: decremented[to] + 1 })
}

/** Orders with their money and their outcome, and the number of an account's orders in each status. */
export const orders: ReadModel = {
  name: 'orders',
  version: 10,
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
        // Nothing of the order belongs to a plan before the payment.
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

export type Page = { readonly limit: number; readonly offset: number }

/** The columns of an order with a pay page. All null for an order that was paid at once. */
type PaymentColumns = {
  readonly paid: boolean | null
  readonly held_until: string | null
  readonly canceled_at: string | null
  readonly cancel_reason: Order['cancelReason']
  readonly charge_cents: number | null
  readonly invoice_status: DepositStatus | null
  readonly invoice_expires_at: string | null
} & Omit<StoredPages, 'account_id' | 'customer_id'>

/** An order for reads, with the invoice that it awaits. */
export type FoundOrder = ShownOrder & { readonly invoice: AwaitedInvoice | null }

const invoiceOf = (
  row: OrderRow & PaymentColumns,
  nowMs: number,
  payUrlOf: PayUrlOf,
): AwaitedInvoice | null => {
  const { charge_cents: chargeCents, invoice_status: status, invoice_expires_at: expiresAt } = row
  if (chargeCents === null || status === null) return null
  return { chargeCents, payUrl: isPayable({ status, expiresAt }, nowMs) ? payUrlOf(row) : null }
}

/** The order from its row. Pending refunds are not in the row: only the log decides on them. */
const orderOfRow = (row: OrderRow & PaymentColumns, nowMs: number, payUrlOf: PayUrlOf): FoundOrder => ({
  details: {
    ...(JSON.parse(row.details) as StoredDetails),
    orderId: row.order_id as OrderDetails['orderId'],
    accountId: row.account_id as AccountId,
    customerId: row.customer_id as CustomerId | null,
    createdAt: row.created_at,
  },
  status: row.status,
  paid: row.paid ?? true,
  awaiting: row.deposit_id === null ? null : { depositId: row.deposit_id, heldUntil: row.held_until },
  canceledAt: row.canceled_at,
  cancelReason: row.cancel_reason,
  balanceCents: row.balance_cents,
  planId: row.plan_id,
  proxyIds: row.proxy_ids as Order['proxyIds'],
  fulfilledAt: row.fulfilled_at,
  failedAt: row.failed_at,
  failureReason: row.failure_reason as Order['failureReason'],
  refundedAt: row.refunded_at,
  refundedCents: row.refunded_cents,
  refundedCostCents: row.refunded_cost_cents ?? 0,
  invoice: row.status === 'awaiting_payment' ? invoiceOf(row, nowMs, payUrlOf) : null,
})

export type OrderQueries = Kysely<QueriedTables & DepositPagesDatabase>

const withPayments = (db: OrderQueries, { accountId, customerId }: ListScope) => {
  const all = db
    .selectFrom('read.orders as o')
    .leftJoin('read.order_payments as p', 'p.order_id', 'o.order_id')
    .leftJoin('read.deposits as i', 'i.deposit_id', 'p.deposit_id')
    .leftJoin('vault.deposit_pages as d', 'd.deposit_id', 'p.deposit_id')
    .selectAll('o')
    .select(['p.deposit_id', 'p.paid', 'p.held_until', 'p.canceled_at', 'p.cancel_reason'])
    .select(['d.return_url', 'd.pay_url', 'd.signature as pages_signature'])
    .select([
      'i.amount_cents as charge_cents',
      'i.status as invoice_status',
      'i.expires_at as invoice_expires_at',
    ])
  if (accountId === null) return all
  const ofAccount = all.where('o.account_id', '=', accountId)
  return customerId === null ? ofAccount : ofAccount.where('o.customer_id', '=', customerId)
}

/**
 * An order within the scope. Undefined if it does not exist or is outside of the scope. `nowMs` determines which pay
 * pages have expired.
 */
export const findOrder = async (
  db: OrderQueries,
  scope: Scope,
  orderId: string,
  nowMs: number,
  payUrlOf: PayUrlOf,
) => {
  const row = await withPayments(db, scope).where('o.order_id', '=', orderId).executeTakeFirst()
  return row && orderOfRow(row, nowMs, payUrlOf)
}

/** `orderIds`: only orders with these ids. */
type ListFilter = {
  readonly status: OrderStatus | undefined
  readonly orderIds: readonly string[] | undefined
}

const matchingOrders = (db: OrderQueries, scope: ListScope, { status, orderIds }: ListFilter) => {
  let matching = withPayments(db, scope)
  if (status !== undefined) matching = matching.where('o.status', '=', status)
  if (orderIds !== undefined) matching = matching.where(sql<boolean>`o.order_id = any (${orderIds}::text[])`)
  return matching
}

/** For all orders of accounts the number is stored. Those of one customer and given ids are few and are counted. */
const countOrders = (db: OrderQueries, scope: ListScope, filter: ListFilter) => {
  if (filter.orderIds !== undefined || scope.customerId !== null)
    return matchingOrders(db, scope, filter)
      .clearSelect()
      .select((eb) => eb.fn.countAll<number>().as('total'))
  const counted = filter.status === undefined ? orderStatuses : [filter.status]
  const total = sql.join<number>(
    counted.map((status) => sql.ref(status)),
    sql` + `,
  )
  const all = db.selectFrom('read.order_counts').select(sql<number>`sum(${total})::bigint`.as('total'))
  return scope.accountId === null ? all : all.where('account_id', '=', scope.accountId)
}

/** The start of a page: after the resource with this time and id, newest first. */
export type PageCursor = { readonly at: string; readonly id: string }

/**
 * Up to `limit` orders within the scope after a given one, newest first; null: from the newest. It reads only as many
 * rows as it returns. The orders are without their pay pages.
 */
export const ordersAfter = async (
  db: OrderQueries,
  scope: Scope,
  page: {
    readonly status: OrderStatus | undefined
    readonly after: PageCursor | null
    readonly limit: number
  },
  nowMs: number,
): Promise<readonly FoundOrder[]> => {
  let matching = matchingOrders(db, scope, { status: page.status, orderIds: undefined })
  if (page.after !== null) {
    const { at, id } = page.after
    // The first condition uses the index. The second excludes orders of the same millisecond.
    matching = matching
      .where('o.created_at', '<=', at)
      .where(sql<boolean>`(o.created_at, o.order_id) < (${at}::timestamptz, ${id}::text)`)
  }
  const rows = await matching
    .orderBy('o.created_at', 'desc')
    .orderBy('o.order_id', 'desc')
    .limit(page.limit)
    .execute()
  return rows.map((row) => orderOfRow(row, nowMs, () => null))
}

/** A page of the orders within the scope, newest first, and their total number. */
export const listOrders = async (
  db: OrderQueries,
  scope: ListScope,
  filter: Page & ListFilter,
  nowMs: number,
  payUrlOf: PayUrlOf,
) => {
  const { rows, total } = await countedPage(
    matchingOrders(db, scope, filter).orderBy('o.created_at', 'desc').orderBy('o.order_id', 'desc'),
    countOrders(db, scope, filter),
    filter,
  )
  return { orders: rows.map((row) => orderOfRow(row, nowMs, payUrlOf)), total }
}

/** The invoice that an order awaits. */
export type AwaitedInvoice = {
  readonly chargeCents: number
  /** Null when it can no longer be paid. */
  readonly payUrl: string | null
}
