import type { Kysely } from 'kysely'
import type { CustomerEvent } from '../src/domain/ledger/events.ts'
import { customerMovementOf } from '../src/domain/ledger/movements.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import type { ReadModel, Rows, Table } from '../src/platform/projections/read-model.ts'

/** A customer's account with its reseller: one row from its first money event. Micro-dollars, none of them negative. */
export type CustomerRow = {
  readonly customer_id: string
  /** The reseller. */
  readonly account_id: string
  readonly credit_micros: number
  /** The debt after a chargeback. The next credits pay it first. */
  readonly receivable_micros: number
  /** The payments of the customer through the reseller's gateways. */
  readonly deposited_micros: number
  /** The number of charged orders. */
  readonly orders: number
  /** The sum of the prices for the customer; `cost_micros`: the sum of the prices for the reseller. */
  readonly charged_micros: number
  readonly cost_micros: number
  /** The refunds of both sums. */
  readonly refunded_micros: number
  readonly refunded_cost_micros: number
  /** The time of the last money event. */
  readonly moved_at: string
}

export type CustomerQueries = Kysely<{ 'read.customers': CustomerRow }>

const customersTable: Table<CustomerRow> = {
  name: 'customers',
  columns: {
    customer_id: { type: 'text' },
    account_id: { type: 'text' },
    credit_micros: { type: 'bigint' },
    receivable_micros: { type: 'bigint' },
    deposited_micros: { type: 'bigint' },
    orders: { type: 'bigint' },
    charged_micros: { type: 'bigint' },
    cost_micros: { type: 'bigint' },
    refunded_micros: { type: 'bigint' },
    refunded_cost_micros: { type: 'bigint' },
    moved_at: { type: 'timestamptz' },
  },
  key: ['customer_id'],
  indexes: ['account_id'],
  rewritten: true,
}

const customerEvents: ReadonlySet<string> = new Set<CustomerEvent['type']>([
  'CustomerCredited',
  'CustomerCharged',
  'CustomerRefunded',
  'CustomerAdjusted',
])

const isOfCustomer = (event: RecordedEvent): event is RecordedEvent<CustomerEvent> =>
  customerEvents.has(event.type)

const emptyRow = (event: RecordedEvent<CustomerEvent>): CustomerRow => ({
  customer_id: event.data.customerId,
  account_id: ownerOf(event.stream),
  credit_micros: 0,
  receivable_micros: 0,
  deposited_micros: 0,
  orders: 0,
  charged_micros: 0,
  cost_micros: 0,
  refunded_micros: 0,
  refunded_cost_micros: 0,
  moved_at: event.metadata.recordedAt,
})

/** The totals after the event. */
const totalsAfter = (row: CustomerRow, event: CustomerEvent): Partial<CustomerRow> => {
  switch (event.type) {
    case 'CustomerCredited':
      return { deposited_micros: row.deposited_micros + event.data.amountMicros }
    case 'CustomerCharged':
      return {
        orders: row.orders + 1,
        charged_micros: row.charged_micros + event.data.amountMicros,
        cost_micros: row.cost_micros + event.data.costMicros,
      }
    case 'CustomerRefunded':
      return {
        refunded_micros: row.refunded_micros + event.data.amountMicros,
        refunded_cost_micros: row.refunded_cost_micros + event.data.costMicros,
      }
    case 'CustomerAdjusted':
      return {}
    default: {
      const unknown: never = event
      throw new Error(`unknown customer event ${JSON.stringify(unknown)}`)
    }
  }
}

const fold = (event: RecordedEvent<CustomerEvent>, rows: Rows): void => {
  const row = rows.get(customersTable, [event.data.customerId]) ?? emptyRow(event)
  rows.put(customersTable, {
    ...row,
    credit_micros: event.data.creditAfterMicros,
    receivable_micros: row.receivable_micros + customerMovementOf(event).receivableMicros,
    ...totalsAfter(row, event),
    moved_at: event.metadata.recordedAt,
  })
}

/** The credit and the totals of every reseller's customers. */
export const customers: ReadModel = {
  name: 'customers',
  version: 2,
  tables: [customersTable],
  reads: (event) =>
    isOfCustomer(event) ? [{ table: customersTable.name, key: [event.data.customerId] }] : [],
  apply: (event, rows) => {
    if (isOfCustomer(event)) fold(event, rows)
  },
}
