import { type DepositStatus, isPayable } from '../src/domain/deposits/fold.ts'
import { shortfallAfterPayment, walletShortfallOf } from '../src/domain/orders/decide-awaited.ts'
import type { OrderEvent } from '../src/domain/orders/events.ts'
import { type Order, type OrderStatus, orderStatuses, type ShownOrder } from '../src/domain/orders/fold.ts'
import type { OrderDetails, ShownDetails } from '../src/domain/shared/order-terms.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId, CustomerId } from '../src/kernel/ids.ts'
import { microsToCentsCeil } from '../src/kernel/money.ts'
import type { ListScope, AccountScope as Scope } from '../src/kernel/scopes.ts'
import {
  beginsWith,
  contains,
  countedPage,
  type Db,
  inScope,
  sql,
  type TimePage,
  timePage,
} from '../src/platform/postgres/kysely.ts'
import {
  column,
  nullable,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'
import type { PayUrlOf, StoredPages } from './deposits.ts'

/**
 * One order for `GET /orders/{id}`. `details` is a JSON text of the order as it was decided, without two digests,
 * which are only in the log, and without the values of other columns. It is a third of the row. As `jsonb` it would
 * take another 25 µs of Postgres per row, a third of the row's cost (measured at 16 to 500 rows per batch).
 */
export const ordersTable = readTable({
  name: 'orders',
  columns: {
    orderId: column.text(),
    accountId: column.text(),
    /** The reseller's customer of the order; null for the account itself. */
    customerId: nullable(column.text()),
    status: column.text<OrderStatus>(),
    createdAt: column.timestamptz(),
    details: column.text(),
    balanceCents: column.bigint(),
    planId: nullable(column.text()),
    proxyIds: column.textArray(),
    fulfilledAt: nullable(column.timestamptz()),
    failedAt: nullable(column.timestamptz()),
    failureReason: nullable(column.text()),
    refundedAt: nullable(column.timestamptz()),
    refundedCents: column.bigint(),
    /** For an order of a customer, the refund to the reseller's wallet; null: none. */
    refundedCostCents: nullable(column.bigint()),
  },
  key: ['orderId'],
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
})

export type OrderRow = RowOf<typeof ordersTable>

/** The number of an account's orders in each status, so that the total of a list of 100,000 orders is known at once. */
const orderCountsTable = readTable({
  name: 'order_counts',
  columns: {
    accountId: column.text(),
    awaitingPayment: column.bigint(),
    processing: column.bigint(),
    completed: column.bigint(),
    failed: column.bigint(),
    refunded: column.bigint(),
    canceled: column.bigint(),
  },
  key: ['accountId'],
  rewritten: true,
})

/** The contents of `OrderRow.details`. */
export type StoredDetails = Omit<ShownDetails, 'orderId' | 'accountId' | 'customerId' | 'createdAt'>

const detailsOf = (order: OrderDetails): string => {
  const { orderId: _, accountId: _a, customerId: _u, createdAt: _c, ...details } = order
  const { catalogDigest: _d, fingerprint: _f, ...storedDetails } = details
  return JSON.stringify(storedDetails satisfies StoredDetails)
}

const rowOf = (order: OrderDetails, balanceCents: number, status: OrderStatus): OrderRow => ({
  orderId: order.orderId,
  accountId: order.accountId,
  customerId: order.customerId,
  status,
  createdAt: order.createdAt,
  details: detailsOf(order),
  balanceCents,
  planId: order.planId,
  proxyIds: [],
  fulfilledAt: null,
  failedAt: null,
  failureReason: null,
  refundedAt: null,
  refundedCents: 0,
  refundedCostCents: null,
})

const noOrders = { awaitingPayment: 0, processing: 0, completed: 0, failed: 0, refunded: 0, canceled: 0 }

const countField = (status: OrderStatus) => (status === 'awaiting_payment' ? 'awaitingPayment' : status)

/** Counts a change of an order's status; null: the order is new. */
const count = (rows: Rows, accountId: string, from: OrderStatus | null, to: OrderStatus): void => {
  const counts = { ...noOrders, accountId, ...rows.get(orderCountsTable, [accountId]) }
  if (from !== null) counts[countField(from)] -= 1
  counts[countField(to)] += 1
  rows.put(orderCountsTable, counts)
}

/** Orders with their money and their outcome, and the number of an account's orders in each status. */
export const orders = readModel({
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
      if (next.status !== row.status) count(rows, row.accountId, row.status, next.status)
    }
    switch (event.type) {
      case 'OrderCompleted': {
        const { order, balanceCents, proxyIds, fulfilledAt } = event.data
        const row = rowOf(order, balanceCents, 'completed')
        rows.insert(ordersTable, { ...row, proxyIds, fulfilledAt })
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
        rows.put(ordersTable, { ...rowOf(order, balanceCents, 'awaiting_payment'), planId: null })
        return before ? undefined : count(rows, order.accountId, null, 'awaiting_payment')
      }
      case 'OrderPaid': {
        const { orderId, order, balanceCents } = event.data
        const paid = {
          details: detailsOf(order),
          balanceCents,
          planId: order.planId,
        }
        const awaited = rows.get(ordersTable, [orderId])?.status === 'awaiting_payment'
        return change(orderId, awaited ? { status: 'processing', ...paid } : paid)
      }
      case 'OrderCanceled':
        return change(event.data.orderId, { status: 'canceled' })
      case 'OrderFulfilled': {
        const { orderId, planId, proxyIds, fulfilledAt } = event.data
        const fields = { planId, proxyIds, fulfilledAt }
        return change(orderId, { status: 'completed', ...fields })
      }
      case 'OrderFailed': {
        const { orderId, reason, failedAt } = event.data
        return change(orderId, { status: 'failed', failureReason: reason, failedAt })
      }
      case 'OrderRefunded': {
        const { orderId, refundedCents, costCents, complete, refundedAt } = event.data
        const before = rows.get(ordersTable, [orderId])?.refundedCostCents ?? 0
        const fields = {
          refundedCents,
          refundedAt,
          ...(costCents !== undefined && { refundedCostCents: before + costCents }),
        }
        return change(orderId, complete ? { status: 'refunded', ...fields } : fields)
      }
    }
  },
})

export type Page = { readonly limit: number; readonly offset: number }

/** The columns of an order with a pay page. All null for an order that was paid at once. */
type PaymentColumns = {
  readonly paid: boolean | null
  readonly heldUntil: string | null
  readonly canceledAt: string | null
  readonly cancelReason: Order['cancelReason']
  readonly chargeCents: number | null
  readonly owedMicros: number
  readonly payerMicros: number
  readonly walletMicros: number
  readonly walletDebtMicros: number
  readonly invoiceStatus: DepositStatus | null
  readonly invoiceExpiresAt: string | null
} & Omit<StoredPages, 'accountId' | 'customerId'>

/** An order for reads, with the invoice that it awaits. */
export type FoundOrder = ShownOrder & { readonly invoice: AwaitedInvoice | null }

const invoiceOf = (
  row: OrderRow & PaymentColumns,
  nowMs: number,
  payUrlOf: PayUrlOf,
): AwaitedInvoice | null => {
  const { chargeCents, owedMicros, invoiceStatus: status, invoiceExpiresAt: expiresAt } = row
  if (chargeCents === null || status === null) return null
  const payUrl = isPayable({ status, expiresAt }, nowMs) ? payUrlOf(row) : null
  const wallet = { availableMicros: row.walletMicros, receivableMicros: row.walletDebtMicros }
  const payer = { availableMicros: row.payerMicros, receivableMicros: owedMicros }
  const details: StoredDetails = JSON.parse(row.details)
  return {
    chargeCents,
    owedCents: microsToCentsCeil(owedMicros),
    shortfallCents: shortfallAfterPayment(payer, details, chargeCents),
    payUrl,
    walletShortfallCents: walletShortfallOf(wallet, details),
  }
}

/** The order from its row. Pending refunds are not in the row: only the log decides on them. */
const orderOfRow = (row: OrderRow & PaymentColumns, nowMs: number, payUrlOf: PayUrlOf): FoundOrder => ({
  details: {
    ...(JSON.parse(row.details) as StoredDetails),
    orderId: row.orderId as OrderDetails['orderId'],
    accountId: row.accountId as AccountId,
    customerId: row.customerId as CustomerId | null,
    createdAt: row.createdAt,
  },
  status: row.status,
  paid: row.paid ?? true,
  awaiting: row.depositId === null ? null : { depositId: row.depositId, heldUntil: row.heldUntil },
  canceledAt: row.canceledAt,
  cancelReason: row.cancelReason,
  balanceCents: row.balanceCents,
  planId: row.planId,
  proxyIds: row.proxyIds as Order['proxyIds'],
  fulfilledAt: row.fulfilledAt,
  failedAt: row.failedAt,
  failureReason: row.failureReason as Order['failureReason'],
  refundedAt: row.refundedAt,
  refundedCents: row.refundedCents,
  refundedCostCents: row.refundedCostCents ?? 0,
  invoice: row.status === 'awaiting_payment' ? invoiceOf(row, nowMs, payUrlOf) : null,
})

const withPayments = (db: Db, scope: ListScope) =>
  db
    .selectFrom('read.orders as o')
    .leftJoin('read.order_payments as p', 'p.orderId', 'o.orderId')
    .leftJoin('read.deposits as i', 'i.depositId', 'p.depositId')
    .leftJoin('vault.deposit_pages as d', 'd.depositId', 'p.depositId')
    .leftJoin('read.balances as b', 'b.accountId', 'o.accountId')
    .leftJoin('read.customers as c', 'c.customerId', 'o.customerId')
    .selectAll('o')
    .select(['p.depositId', 'p.paid', 'p.heldUntil', 'p.canceledAt', 'p.cancelReason'])
    .select(['d.returnUrl', 'd.payUrl', 'd.signature as pagesSignature'])
    .select(['i.amountCents as chargeCents', 'i.status as invoiceStatus', 'i.expiresAt as invoiceExpiresAt'])
    .select(
      sql<number>`coalesce(case when o.customer_id is null then b.receivable_micros else c.receivable_micros end, 0)`.as(
        'owedMicros',
      ),
    )
    .select(
      sql<number>`coalesce(case when o.customer_id is null then b.available_micros else c.credit_micros end, 0)`.as(
        'payerMicros',
      ),
    )
    .select([
      sql<number>`coalesce(b.available_micros, 0)`.as('walletMicros'),
      sql<number>`coalesce(b.receivable_micros, 0)`.as('walletDebtMicros'),
    ])
    .where(inScope('o', scope))

/**
 * An order within the scope. Undefined if it does not exist or is outside of the scope. `nowMs` determines which pay
 * pages have expired.
 */
export const findOrder = async (db: Db, scope: Scope, orderId: string, nowMs: number, payUrlOf: PayUrlOf) => {
  const row = await withPayments(db, scope).where('o.orderId', '=', orderId).executeTakeFirst()
  return row && orderOfRow(row, nowMs, payUrlOf)
}

/** `orderIds`: only orders with these ids. */
type ListFilter = {
  readonly status: OrderStatus | undefined
  readonly orderIds: readonly string[] | undefined
}

const matchingOrders = (db: Db, scope: ListScope, { status, orderIds }: ListFilter) => {
  let matching = withPayments(db, scope)
  if (status !== undefined) matching = matching.where('o.status', '=', status)
  if (orderIds !== undefined) matching = matching.where(sql<boolean>`o.order_id = any (${orderIds}::text[])`)
  return matching
}

/** For all orders of accounts the number is stored. Those of one customer and given ids are few and are counted. */
const countOrders = (db: Db, scope: ListScope, filter: ListFilter) => {
  if (filter.orderIds !== undefined || scope.customerId !== null)
    return matchingOrders(db, scope, filter)
      .clearSelect()
      .select((eb) => eb.fn.countAll<number>().as('total'))
  const counted = filter.status === undefined ? orderStatuses : [filter.status]
  const total = sql.join<number>(
    counted.map((status) => sql.ref(status)),
    sql` + `,
  )
  return db
    .selectFrom('read.order_counts as n')
    .select(sql<number>`sum(${total})::bigint`.as('total'))
    .where(inScope('n', scope))
}

/** The ids of the products of orders, by the id of the order. */
export const productsOfOrders = async (
  db: Db,
  orderIds: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  if (orderIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('read.orders')
    .select(['orderId', 'details'])
    .where('orderId', 'in', orderIds)
    .execute()
  return new Map(rows.map(({ orderId, details }) => [orderId, JSON.parse(details).productId]))
}

/**
 * A page of the orders within the scope, without their pay pages. `search` is the beginning of the id of an order or an
 * account, a part of a customer's name, or the text of products.
 */
export const ordersAfter = async (
  db: Db,
  scope: ListScope,
  page: TimePage & {
    readonly status?: OrderStatus | undefined
    readonly search?: { readonly text: string; readonly productIds: readonly string[] } | null
  },
  nowMs: number,
): Promise<readonly FoundOrder[]> => {
  let matching = matchingOrders(db, scope, { status: page.status, orderIds: undefined })
  if (page.search) {
    const { text, productIds } = page.search
    matching = matching.where((eb) =>
      eb.or([
        beginsWith('o.orderId', text),
        beginsWith('o.accountId', text),
        sql<boolean>`o.details::jsonb ->> 'productId' = any (${productIds}::text[])`,
        eb.exists(
          eb
            .selectFrom('vault.customers as c')
            .whereRef('c.customerId', '=', 'o.customerId')
            .where((or) => or.or([contains('c.ref', text), contains('c.label', text)]))
            .select('c.customerId'),
        ),
      ]),
    )
  }
  const rows = await timePage(matching, { time: 'o.createdAt', id: 'o.orderId' }, page).execute()
  return rows.map((row) => orderOfRow(row, nowMs, () => null))
}

/** A page of the orders within the scope, newest first, and their total number. */
export const listOrders = async (
  db: Db,
  scope: ListScope,
  filter: Page & ListFilter,
  nowMs: number,
  payUrlOf: PayUrlOf,
) => {
  const { rows, total } = await countedPage(
    matchingOrders(db, scope, filter).orderBy('o.createdAt', 'desc').orderBy('o.orderId', 'desc'),
    countOrders(db, scope, filter),
    filter,
  )
  return { orders: rows.map((row) => orderOfRow(row, nowMs, payUrlOf)), total }
}

/** The invoice that an order awaits. */
export type AwaitedInvoice = {
  readonly chargeCents: number
  /** The debt of the payer, which the payment pays first. */
  readonly owedCents: number
  /** What the payer lacks for the order after this payment, whole cents. */
  readonly shortfallCents: number
  /** Null when it can no longer be paid. */
  readonly payUrl: string | null
  /** What the wallet of the account lacks for the order, whole cents, with its debt. */
  readonly walletShortfallCents: number
}
