import type { CustomerCharged, WalletDebited } from '../src/domain/ledger/events.ts'
import type { OrderEvent } from '../src/domain/orders/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { ReadModel, Table } from '../src/platform/projections/read-model.ts'

/** An open step of an order: its outcome after the debit, or a refund that was decided and not yet appended. */
export type OpenOrderRow = {
  readonly order_id: string
  /** `outcome`, or the id of the refund. */
  readonly step: string
  /** The account of the debit event, which contains the whole order; null for a refund (see the order's stream). */
  readonly account_id: string | null
  readonly debit_revision: number | null
  readonly opened_at: string
}

const openOrdersTable: Table<OpenOrderRow> = {
  name: 'open_orders',
  columns: {
    order_id: { type: 'text' },
    step: { type: 'text' },
    account_id: { type: 'text', nullable: true },
    debit_revision: { type: 'bigint', nullable: true },
    opened_at: { type: 'timestamptz' },
  },
  key: ['order_id', 'step'],
  indexes: ['opened_at'],
}

/**
 * Read by the completion reactor. On Postgres a debit and its outcome are appended in one commit, so a row is
 * inserted and removed within one batch and nothing is written. After a crash between two appends on EventStoreDB the
 * row remains.
 */
export const openOrders: ReadModel = {
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
          order_id: event.data.order.orderId,
          step: 'outcome',
          account_id: event.data.order.accountId,
          debit_revision: event.revision,
          opened_at: event.metadata.recordedAt,
        })
      case 'OrderCompleted':
        return rows.remove(openOrdersTable, [event.data.order.orderId, 'outcome'])
      case 'OrderFulfilled':
      case 'OrderFailed':
        return rows.remove(openOrdersTable, [event.data.orderId, 'outcome'])
      case 'RefundDecided':
        return rows.insert(openOrdersTable, {
          order_id: event.data.orderId,
          step: event.data.refundId,
          account_id: null,
          debit_revision: null,
          opened_at: event.metadata.recordedAt,
        })
      case 'OrderRefunded':
        return rows.remove(openOrdersTable, [event.data.orderId, event.data.refundId])
    }
  },
}
