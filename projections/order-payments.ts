import type { CancelReason, OrderEvent } from '../src/domain/orders/events.ts'
import { walletCents } from '../src/domain/shared/order-terms.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { centsToMicros } from '../src/kernel/money.ts'
import {
  column,
  nullable,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/** The invoice of an order that was not paid at once; no row for other orders. */
const orderPaymentsTable = readTable({
  name: 'order_payments',
  columns: {
    orderId: column.text(),
    accountId: column.text(),
    customerId: nullable(column.text()),
    /** The last invoice that was opened for it. */
    depositId: column.text(),
    /** Whether the order still awaits its payment. The reactor reads it. */
    waits: column.boolean(),
    paid: column.boolean(),
    /** The order is tried again until then, because it was paid and the reseller's wallet was short. Null: not so. */
    heldUntil: nullable(column.timestamptz()),
    /** The amount that the wallet must have for it. */
    walletMicros: column.bigint(),
    canceledAt: nullable(column.timestamptz()),
    cancelReason: nullable(column.text<CancelReason>()),
  },
  key: ['orderId'],
  indexes: ['held_until where waits and held_until is not null', 'deposit_id where waits'],
})

export type OrderPaymentRow = RowOf<typeof orderPaymentsTable>

/**
 * What messages say about an order that a customer paid on a pay page: its outcome, for the customer, and the shortage of
 * the wallet, for the reseller. Rows are never deleted.
 */
export type OrderNotice = 'placed' | 'failed' | 'wallet_short'

const orderNoticesTable = readTable({
  name: 'order_notices',
  columns: {
    orderId: column.text(),
    notice: column.text<OrderNotice>(),
    accountId: column.text(),
    customerId: column.text(),
    position: column.bigint(),
  },
  key: ['orderId', 'notice'],
  indexes: ['position'],
})

const noticeOf = (
  event: RecordedEvent<OrderEvent>,
  row: OrderPaymentRow,
  notice: OrderNotice,
  rows: Rows,
) => {
  const { orderId, accountId, customerId } = row
  if (customerId === null) return
  rows.put(orderNoticesTable, { orderId, notice, accountId, customerId, position: event.position })
}

const endWaiting = (
  event: RecordedEvent<OrderEvent>,
  orderId: string,
  rows: Rows,
  fields: Partial<OrderPaymentRow>,
) => {
  const row = rows.get(orderPaymentsTable, [orderId])
  if (!row?.waits) return
  rows.put(orderPaymentsTable, { ...row, ...fields, waits: false })
  if (fields.paid === true) return noticeOf(event, row, 'placed', rows)
  if (event.type !== 'OrderCanceled' || hasPaid(row, event.data.reason)) noticeOf(event, row, 'failed', rows)
}

/** Whether a payment arrived for an order that was canceled. */
const hasPaid = ({ heldUntil }: OrderPaymentRow, reason: CancelReason | undefined): boolean =>
  heldUntil !== null || reason === 'underpaid' || reason === 'insufficient_balance'

/** The state and the notices of orders with a pay page. */
export const orderPayments = readModel({
  name: 'order-payments',
  version: 4,
  tables: [orderPaymentsTable, orderNoticesTable],
  reads: (recorded) => {
    const event = recorded as RecordedEvent<OrderEvent>
    switch (event.type) {
      case 'OrderPaid':
      case 'OrderHeld':
      case 'OrderFailed':
      case 'OrderCanceled':
        return [{ table: orderPaymentsTable.name, key: [event.data.orderId] }]
      default:
        return []
    }
  },
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<OrderEvent>
    switch (event.type) {
      case 'OrderAwaitingPayment': {
        const { order, depositId } = event.data
        return rows.put(orderPaymentsTable, {
          orderId: order.orderId,
          accountId: order.accountId,
          customerId: order.customerId,
          depositId,
          waits: true,
          paid: false,
          heldUntil: null,
          walletMicros: centsToMicros(walletCents(order)),
          canceledAt: null,
          cancelReason: null,
        })
      }
      case 'OrderHeld': {
        const row = rows.get(orderPaymentsTable, [event.data.orderId])
        if (!row) throw new Error(`${event.type} of order ${event.data.orderId}, which awaits nothing`)
        rows.put(orderPaymentsTable, { ...row, heldUntil: event.data.until })
        return noticeOf(event, row, 'wallet_short', rows)
      }
      case 'OrderPaid':
        return endWaiting(event, event.data.orderId, rows, { paid: true })
      case 'OrderFailed':
        return endWaiting(event, event.data.orderId, rows, {})
      case 'OrderCanceled':
        return endWaiting(event, event.data.orderId, rows, {
          canceledAt: event.data.canceledAt,
          cancelReason: event.data.reason ?? null,
        })
    }
  },
})
