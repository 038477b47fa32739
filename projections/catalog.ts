import type { CatalogEvent } from '../src/domain/catalog/events.ts'
import { evolveCatalog } from '../src/domain/catalog/fold.ts'
import type { Product } from '../src/domain/catalog/product.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { column, type Rows, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** The present catalogue in one row; no row before the first import. */
const catalogTable = readTable({
  name: 'catalog',
  columns: {
    /** Always `catalog`. */
    catalogId: column.text(),
    digest: column.text(),
    importedAt: column.timestamptz(),
    /** In the order of the file, each in its present state. */
    products: column.jsonb<readonly Product[]>(),
    /** The revision of the last event. A process with an older one reads again. */
    revision: column.bigint(),
  },
  key: ['catalogId'],
})

const catalogKey = ['catalog'] as const

const isCatalog = (event: RecordedEvent): event is RecordedEvent<CatalogEvent> =>
  event.type === 'CatalogImported' || event.type === 'ProductStateChanged'

const fold = (event: RecordedEvent<CatalogEvent>, rows: Rows): void => {
  const row = rows.get(catalogTable, catalogKey)
  const before = {
    digest: row?.digest ?? null,
    importedAt: row?.importedAt ?? null,
    products: row?.products ?? [],
  }
  const { digest, importedAt, products } = evolveCatalog(before, event)
  if (digest === null || importedAt === null)
    throw new Error('a product changed before any catalogue was imported')
  rows.put(catalogTable, {
    catalogId: 'catalog',
    digest,
    importedAt,
    products,
    revision: event.revision,
  })
}

/** The catalogue. Every process caches it in memory and reads it again when `revision` changes. */
export const catalog = readModel({
  name: 'catalog',
  version: 1,
  tables: [catalogTable],
  reads: (event) => (isCatalog(event) ? [{ table: catalogTable.name, key: catalogKey }] : []),
  apply: (event, rows) => {
    if (isCatalog(event)) fold(event, rows)
  },
})
