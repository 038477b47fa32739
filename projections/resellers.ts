import type { CustomerEvent } from '../src/domain/ledger/events.ts'
import { customerMovementOf } from '../src/domain/ledger/movements.ts'
import type { TermsEvent } from '../src/domain/resellers/events.ts'
import { emptyTerms, evolveTerms, type Terms } from '../src/domain/resellers/fold.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import {
  column,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/** A customer's account with its reseller: one row from its first money event. Micro-dollars, none of them negative. */
const customersTable = readTable({
  name: 'customers',
  columns: {
    customerId: column.text(),
    /** The reseller. */
    accountId: column.text(),
    creditMicros: column.bigint(),
    /** The debt after a chargeback or a refund at the provider. The next credits pay it first. */
    receivableMicros: column.bigint(),
    /** The payments of the customer through the reseller's gateways. */
    depositedMicros: column.bigint(),
    /** The number of charged orders. */
    orders: column.bigint(),
    /** The sum of the prices for the customer; `cost_micros`: the sum of the prices for the reseller. */
    chargedMicros: column.bigint(),
    costMicros: column.bigint(),
    /** The refunds of both sums. */
    refundedMicros: column.bigint(),
    refundedCostMicros: column.bigint(),
    /** The time of the last money event. */
    movedAt: column.timestamptz(),
  },
  key: ['customerId'],
  indexes: ['account_id'],
  rewritten: true,
})

export type CustomerRow = RowOf<typeof customersTable>

const customerEvents: ReadonlySet<string> = new Set<CustomerEvent['type']>([
  'CustomerCredited',
  'CustomerCharged',
  'CustomerRefunded',
  'CustomerAdjusted',
])

const isOfCustomer = (event: RecordedEvent): event is RecordedEvent<CustomerEvent> =>
  customerEvents.has(event.type)

const emptyRow = (event: RecordedEvent<CustomerEvent>): CustomerRow => ({
  customerId: event.data.customerId,
  accountId: ownerOf(event.stream),
  creditMicros: 0,
  receivableMicros: 0,
  depositedMicros: 0,
  orders: 0,
  chargedMicros: 0,
  costMicros: 0,
  refundedMicros: 0,
  refundedCostMicros: 0,
  movedAt: event.metadata.recordedAt,
})

/** The totals after the event. */
const totalsAfter = (row: CustomerRow, event: CustomerEvent): Partial<CustomerRow> => {
  switch (event.type) {
    case 'CustomerCredited':
      return { depositedMicros: row.depositedMicros + event.data.amountMicros }
    case 'CustomerCharged':
      return {
        orders: row.orders + 1,
        chargedMicros: row.chargedMicros + event.data.amountMicros,
        costMicros: row.costMicros + event.data.costMicros,
      }
    case 'CustomerRefunded':
      return {
        refundedMicros: row.refundedMicros + event.data.amountMicros,
        refundedCostMicros: row.refundedCostMicros + event.data.costMicros,
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
    creditMicros: event.data.creditAfterMicros,
    receivableMicros: row.receivableMicros + customerMovementOf(event).receivableMicros,
    ...totalsAfter(row, event),
    movedAt: event.metadata.recordedAt,
  })
}

/** The credit and the totals of every reseller's customers. */
export const customers = readModel({
  name: 'customers',
  version: 2,
  tables: [customersTable],
  reads: (event) =>
    isOfCustomer(event) ? [{ table: customersTable.name, key: [event.data.customerId] }] : [],
  apply: (event, rows) => {
    if (isOfCustomer(event)) fold(event, rows)
  },
})

/** A reseller's present terms, one row per reseller; no row before the first change. */
const resellerTermsTable = readTable({
  name: 'reseller_terms',
  columns: {
    resellerId: column.text(),
    terms: column.jsonb<Terms>(),
    /** The revision of the last event of the `terms-…` stream. */
    revision: column.bigint(),
    /** The position of that event. A process with an older one reads again. */
    position: column.bigint(),
  },
  key: ['resellerId'],
  indexes: ['position'],
})

export type ResellerTermsRow = RowOf<typeof resellerTermsTable>

const termsEvents: ReadonlySet<string> = new Set<TermsEvent['type']>([
  'DiscountChanged',
  'MarkupChanged',
  'RetailPriceSet',
  'RetailPriceRemoved',
  'PriceLimitsChanged',
  'SellableChanged',
  'ShopChanged',
  'GatewaySet',
  'GatewayRemoved',
  'MessagingBotSet',
  'MessagingBotRemoved',
])

const isTerms = (event: RecordedEvent): event is RecordedEvent<TermsEvent> => termsEvents.has(event.type)

/** The terms. Every process caches them in memory and reads them again when they change. */
export const resellerTerms = readModel({
  name: 'reseller_terms',
  version: 2,
  tables: [resellerTermsTable],
  reads: (event) =>
    isTerms(event) ? [{ table: resellerTermsTable.name, key: [ownerOf(event.stream)] }] : [],
  apply: (event, rows) => {
    if (!isTerms(event)) return
    const resellerId = ownerOf(event.stream)
    const before = rows.get(resellerTermsTable, [resellerId])?.terms ?? emptyTerms
    const { type, data, revision, position } = event
    const terms = evolveTerms(before, { type, data } as TermsEvent)
    rows.put(resellerTermsTable, { resellerId, terms, revision, position })
  },
})
