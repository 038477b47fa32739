import type { CancelReason, OrderEvent } from '../src/domain/orders/events.ts'
import { walletCents } from '../src/domain/shared/order-terms.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { centsToMicros } from '../src/kernel/money.ts'
import type { ReadModel, Rows, Table } from '../src/platform/projections/read-model.ts'

/** The invoice of an order that was not paid at once; no row for other orders. */
export type OrderPaymentRow = {
  readonly order_id: string
  readonly account_id: string
  readonly customer_id: string | null
  /** The last invoice that was opened for it. */
  readonly deposit_id: string
  /** Whether the order still awaits its payment. The reactor reads it. */
  readonly waits: boolean
  readonly paid: boolean
  /** The order is tried again until then, because it was paid and the reseller's wallet was short. Null: not so. */
  readonly held_until: string | null
  /** The amount that the wallet must have for it. */
  readonly wallet_micros: number
  readonly canceled_at: string | null
  readonly cancel_reason: CancelReason | null
}

const orderPaymentsTable: Table<OrderPaymentRow> = {
  name: 'order_payments',
  columns: {
    order_id: { type: 'text' },
    account_id: { type: 'text' },
    customer_id: { type: 'text', nullable: true },
    deposit_id: { type: 'text' },
    waits: { type: 'boolean' },
    paid: { type: 'boolean' },
    held_until: { type: 'timestamptz', nullable: true },
    wallet_micros: { type: 'bigint' },
    canceled_at: { type: 'timestamptz', nullable: true },
    cancel_reason: { type: 'text', nullable: true },
  },
  key: ['order_id'],
  indexes: ['held_until where waits and held_until is not null', 'deposit_id where waits'],
}

/** The outcome of an order that a customer paid on a pay page, for the customer: one row per order, never deleted. */
export type OrderOutcomeRow = {
  readonly order_id: string
  readonly account_id: string
  readonly customer_id: string
  readonly outcome: 'placed' | 'failed'
  readonly position: number
}

const orderOutcomesTable: Table<OrderOutcomeRow> = {
  name: 'order_outcomes',
  columns: {
    order_id: { type: 'text' },
    account_id: { type: 'text' },
    customer_id: { type: 'text' },
    outcome: { type: 'text' },
    position: { type: 'bigint' },
  },
  key: ['order_id'],
  indexes: ['position'],
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
  if (row.customer_id === null) return
  rows.put(orderOutcomesTable, {
    order_id: orderId,
    account_id: row.account_id,
    customer_id: row.customer_id,
    outcome: fields.paid === true ? 'placed' : 'failed',
    position: event.position,
  })
}

/** The state and the outcome of orders with a pay page. */
export const orderPayments: ReadModel = {
  name: 'order-payments',
  version: 2,
  tables: [orderPaymentsTable, orderOutcomesTable],
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
          order_id: order.orderId,
          account_id: order.accountId,
          customer_id: order.customerId,
          deposit_id: depositId,
          waits: true,
          paid: false,
          held_until: null,
          wallet_micros: centsToMicros(walletCents(order)),
          canceled_at: null,
          cancel_reason: null,
        })
      }
      case 'OrderHeld': {
        const row = rows.get(orderPaymentsTable, [event.data.orderId])
        if (!row) throw new Error(`${event.type} of order ${event.data.orderId}, which awaits nothing`)
        return rows.put(orderPaymentsTable, { ...row, held_until: event.data.until })
      }
      case 'OrderPaid':
        return endWaiting(event, event.data.orderId, rows, { paid: true })
      case 'OrderFailed':
        return endWaiting(event, event.data.orderId, rows, {})
      case 'OrderCanceled':
        return endWaiting(event, event.data.orderId, rows, {
          canceled_at: event.data.canceledAt,
          cancel_reason: event.data.reason ?? null,
        })
    }
  },
}
