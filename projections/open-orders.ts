import type { CustomerCharged, WalletDebited } from '../src/domain/ledger/events.ts'
import type { OrderEvent } from '../src/domain/orders/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { column, nullable, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** An open step of an order: its outcome after the debit, or a refund that was decided and not yet appended. */
const openOrdersTable = readTable({
  name: 'open_orders',
  columns: {
    orderId: column.text(),
    /** `outcome`, or the id of the refund. */
    step: column.text(),
    /** The account of the debit event, which contains the whole order; null for a refund (see the order's stream). */
    accountId: nullable(column.text()),
    debitRevision: nullable(column.bigint()),
    openedAt: column.timestamptz(),
  },
  key: ['orderId', 'step'],
  indexes: ['opened_at'],
})

export type OpenOrderRow = RowOf<typeof openOrdersTable>

/**
 * Read by the completion reactor. On Postgres a debit and its outcome are appended in one commit, so a row is
 * inserted and removed within one batch and nothing is written. After a crash between two appends on EventStoreDB the
 * row remains.
 */
export const openOrders = readModel({
  name: 'open-orders',
  version: 4,
  tables: [openOrdersTable],
  reads: () => [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<WalletDebited | CustomerCharged | OrderEvent>
    switch (event.type) {
      case 'WalletDebited':
      case 'CustomerCharged':
        return rows.insert(openOrdersTable, {
          orderId: event.data.order.orderId,
          step: 'outcome',
          accountId: event.data.order.accountId,
          debitRevision: event.revision,
          openedAt: event.metadata.recordedAt,
        })
      case 'OrderCompleted':
        return rows.remove(openOrdersTable, [event.data.order.orderId, 'outcome'])
      case 'OrderFulfilled':
      case 'OrderFailed':
        return rows.remove(openOrdersTable, [event.data.orderId, 'outcome'])
      case 'RefundDecided':
        return rows.insert(openOrdersTable, {
          orderId: event.data.orderId,
          step: event.data.refundId,
          accountId: null,
          debitRevision: null,
          openedAt: event.metadata.recordedAt,
        })
      case 'OrderRefunded':
        return rows.remove(openOrdersTable, [event.data.orderId, event.data.refundId])
    }
  },
})
