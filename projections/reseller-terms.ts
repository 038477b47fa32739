import type { TermsEvent } from '../src/domain/resellers/events.ts'
import { emptyTerms, evolveTerms, type Terms } from '../src/domain/resellers/fold.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import { column, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

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
  version: 1,
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
