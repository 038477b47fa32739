import type { Kysely } from 'kysely'
import type { ReadDatabase } from '../../projections/database.ts'
import type { OrderCountRow, OrderRow } from '../../projections/orders.ts'
import type { AccountId } from '../ids.ts'
import type { OrderDetails } from './details.ts'
import type { Order, OrderStatus } from './fold.ts'

export type Page = { readonly limit: number; readonly offset: number }

/** The order as its row tells it. Refunds on their way are not in the row: only the log decides on them. */
export const orderOfRow = (row: OrderRow): Omit<Order, 'refunds'> => ({
  details: JSON.parse(row.details) as OrderDetails,
  status: row.status,
  balanceCents: row.balance_cents,
  planId: row.plan_id,
  proxyIds: row.proxy_ids as Order['proxyIds'],
  fulfilledAt: row.fulfilled_at,
  failedAt: row.failed_at,
  failureReason: row.failure_reason as Order['failureReason'],
  refundedAt: row.refunded_at,
  refundedCents: row.refunded_cents,
})

/** An order of the account, or undefined: absent and foreign read alike. */
export const findOrder = async (db: Kysely<ReadDatabase>, account: AccountId, orderId: string) => {
  const row = await db
    .selectFrom('read.orders')
    .selectAll()
    .where('order_id', '=', orderId)
    .where('account_id', '=', account)
    .executeTakeFirst()
  return row && orderOfRow(row)
}

const totalOf = ({ account_id: _, ...counts }: OrderCountRow, status: OrderStatus | undefined): number =>
  status === undefined ? Object.values(counts).reduce((sum, count) => sum + count, 0) : counts[status]

/** A page of the account's orders, newest first, and how many there are in all. */
export const listOrders = async (
  db: Kysely<ReadDatabase>,
  account: AccountId,
  filter: Page & { readonly status: OrderStatus | undefined },
) => {
  let page = db.selectFrom('read.orders').selectAll().where('account_id', '=', account)
  if (filter.status !== undefined) page = page.where('status', '=', filter.status)
  const [rows, counts] = await Promise.all([
    page
      .orderBy('created_at', 'desc')
      .orderBy('order_id', 'desc')
      .limit(filter.limit)
      .offset(filter.offset)
      .execute(),
    db.selectFrom('read.order_counts').selectAll().where('account_id', '=', account).executeTakeFirst(),
  ])
  return { orders: rows.map(orderOfRow), total: counts ? totalOf(counts, filter.status) : 0 }
}
