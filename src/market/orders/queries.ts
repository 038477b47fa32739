import { type Kysely, sql } from 'kysely'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { KeptDetails, OrderRow } from '../../../projections/orders.ts'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import type { DepositPagesDatabase } from '../../money/deposits/database.ts'
import { type DepositStatus, isPayable } from '../../money/deposits/fold.ts'
import { countedPage } from '../../platform/postgres/counted-page.ts'
import type { Scope } from '../../terms/holder.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import { type Order, type OrderStatus, orderStatuses, type ShownOrder } from './fold.ts'
import type { AwaitedInvoice } from './record.ts'

export type Page = { readonly limit: number; readonly offset: number }

/** Of an order that a pay page was opened for; all null for one that was paid at once. */
type PaymentColumns = {
  readonly deposit_id: string | null
  readonly paid: boolean | null
  readonly held_until: string | null
  readonly canceled_at: string | null
  readonly cancel_reason: Order['cancelReason']
  readonly charge_cents: number | null
  readonly invoice_status: DepositStatus | null
  readonly invoice_expires_at: string | null
  readonly pay_url: string | null
}

/** An order as reads show it, with the invoice that it waits for. */
export type FoundOrder = ShownOrder & { readonly invoice: AwaitedInvoice | null }

const invoiceOf = (row: PaymentColumns, nowMs: number): AwaitedInvoice | null => {
  const { charge_cents: chargeCents, invoice_status: status, invoice_expires_at: expiresAt } = row
  if (chargeCents === null || status === null) return null
  return { chargeCents, payUrl: isPayable({ status, expiresAt }, nowMs) ? row.pay_url : null }
}

/** The order as its row tells it. Refunds on their way are not in the row: only the log decides on them. */
const orderOfRow = (row: OrderRow & PaymentColumns, nowMs: number): FoundOrder => ({
  details: {
    ...(JSON.parse(row.details) as KeptDetails),
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
  invoice: row.status === 'awaiting_payment' ? invoiceOf(row, nowMs) : null,
})

type Database = ReadDatabase & DepositPagesDatabase

const withPayments = (db: Kysely<Database>, { accountId, customerId }: Scope) => {
  const ofAccount = db
    .selectFrom('read.orders as o')
    .leftJoin('read.order_payments as p', 'p.order_id', 'o.order_id')
    .leftJoin('read.deposits as i', 'i.deposit_id', 'p.deposit_id')
    .leftJoin('vault.deposit_pages as d', 'd.deposit_id', 'p.deposit_id')
    .selectAll('o')
    .select(['p.deposit_id', 'p.paid', 'p.held_until', 'p.canceled_at', 'p.cancel_reason', 'd.pay_url'])
    .select([
      'i.amount_cents as charge_cents',
      'i.status as invoice_status',
      'i.expires_at as invoice_expires_at',
    ])
    .where('o.account_id', '=', accountId)
  return customerId === null ? ofAccount : ofAccount.where('o.customer_id', '=', customerId)
}

/** An order within the scope, or undefined: absent and foreign read alike. `nowMs` tells which pay pages are dead. */
export const findOrder = async (db: Kysely<Database>, scope: Scope, orderId: string, nowMs: number) => {
  const row = await withPayments(db, scope).where('o.order_id', '=', orderId).executeTakeFirst()
  return row && orderOfRow(row, nowMs)
}

/** `orderIds`: only some of these. */
type ListFilter = {
  readonly status: OrderStatus | undefined
  readonly orderIds: readonly string[] | undefined
}

const fittingOrders = (db: Kysely<Database>, scope: Scope, { status, orderIds }: ListFilter) => {
  let fitting = withPayments(db, scope)
  if (status !== undefined) fitting = fitting.where('o.status', '=', status)
  if (orderIds !== undefined) fitting = fitting.where(sql<boolean>`o.order_id = any (${orderIds}::text[])`)
  return fitting
}

/** Of all of an account's orders it is known; a customer has few, and only a few can be named. */
const countOrders = (db: Kysely<Database>, scope: Scope, filter: ListFilter) => {
  if (filter.orderIds !== undefined || scope.customerId !== null)
    return fittingOrders(db, scope, filter)
      .clearSelect()
      .select((is) => is.fn.countAll<number>().as('total'))
  const counted = filter.status === undefined ? orderStatuses : [filter.status]
  const total = sql.join<number>(
    counted.map((status) => sql.ref(status)),
    sql` + `,
  )
  return db
    .selectFrom('read.order_counts')
    .select(sql<number>`${total}`.as('total'))
    .where('account_id', '=', scope.accountId)
}

/** Where a page of a list begins: after the thing of this time and id, newest first. */
export type After = { readonly at: string; readonly id: string }

/**
 * Up to `limit` orders within the scope, newest first, that come after one; null: from the newest on. However many there
 * are, it reads as many rows as it gives.
 */
export const ordersAfter = async (
  db: Kysely<Database>,
  scope: Scope,
  page: { readonly status: OrderStatus | undefined; readonly after: After | null; readonly limit: number },
  nowMs: number,
): Promise<readonly FoundOrder[]> => {
  let fitting = fittingOrders(db, scope, { status: page.status, orderIds: undefined })
  if (page.after !== null) {
    const { at, id } = page.after
    // The first condition is the index's; the second sorts out those of the same millisecond.
    fitting = fitting
      .where('o.created_at', '<=', at)
      .where(sql<boolean>`(o.created_at, o.order_id) < (${at}::timestamptz, ${id}::text)`)
  }
  const rows = await fitting
    .orderBy('o.created_at', 'desc')
    .orderBy('o.order_id', 'desc')
    .limit(page.limit)
    .execute()
  return rows.map((row) => orderOfRow(row, nowMs))
}

/** A page of the orders within the scope, newest first, and how many there are in all. */
export const listOrders = async (
  db: Kysely<Database>,
  scope: Scope,
  filter: Page & ListFilter,
  nowMs: number,
) => {
  const { rows, total } = await countedPage(
    fittingOrders(db, scope, filter).orderBy('o.created_at', 'desc').orderBy('o.order_id', 'desc'),
    countOrders(db, scope, filter),
    filter,
  )
  return { orders: rows.map((row) => orderOfRow(row, nowMs)), total }
}
