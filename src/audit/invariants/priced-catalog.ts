import { LRUCache } from 'lru-cache'
import { catalogDigest } from '../../domain/catalog/catalog-file.ts'
import type { CatalogEvent, CatalogImported } from '../../domain/catalog/events.ts'
import type { Product } from '../../domain/catalog/product.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { catalogStream } from '../../kernel/streams.ts'
import type { RowKey, Rows, Table } from '../../platform/projections/read-model.ts'

/**
 * How old a price, a key or terms may be when an event that uses them is recorded: a process reads them and writes a
 * moment later. Milliseconds.
 */
export const staleMs = 10 * 60 * 1000

/** A catalogue in force, or replaced less than `staleMs` ago; `replaced_ms` is null while it is in force. */
type CatalogRow = { digest: string; replaced_ms: number | null; product_ids: string }
/** The digests of these catalogues as JSON: one row. */
type CurrentCatalogsRow = { name: 'catalog'; digests: string }
type ProductRow = {
  digest: string
  product_id: string
  /** JSON: the product as it was imported. */
  product: string
  state: string
  /** The time of the last state change, by times of recording. */
  state_ms: number
}

const catalogsTable: Table<CatalogRow> = {
  name: 'audit_catalogs',
  columns: {
    digest: { type: 'text' },
    replaced_ms: { type: 'bigint', nullable: true },
    product_ids: { type: 'text' },
  },
  key: ['digest'],
  indexes: [],
}
const currentCatalogsTable: Table<CurrentCatalogsRow> = {
  name: 'audit_catalogs_standing',
  columns: { name: { type: 'text' }, digests: { type: 'text' } },
  key: ['name'],
  indexes: [],
}
const productsTable: Table<ProductRow> = {
  name: 'audit_products',
  columns: {
    digest: { type: 'text' },
    product_id: { type: 'text' },
    product: { type: 'text' },
    state: { type: 'text' },
    state_ms: { type: 'bigint' },
  },
  key: ['digest', 'product_id'],
  indexes: [],
}
export const catalogTables = [catalogsTable, currentCatalogsTable, productsTable]

/** Caches products by their text, so that a text is parsed once for all orders. */
const products = new LRUCache<string, Product>({
  maxSize: 32_000_000,
  sizeCalculation: (_product, text) => text.length,
})

const productOf = (text: string): Product => {
  const cached = products.get(text)
  if (cached !== undefined) return cached
  const product = JSON.parse(text) as Product
  products.set(text, product)
  return product
}

export const isCatalogEvent = (event: RecordedEvent): event is RecordedEvent<CatalogEvent> =>
  event.stream === catalogStream && (event.type === 'CatalogImported' || event.type === 'ProductStateChanged')

/** The rows that `applyCatalog` reads, as far as they are known from the event alone. */
export const catalogReads: readonly RowKey[] = [{ table: currentCatalogsTable.name, key: ['catalog'] }]

const currentDigests = (rows: Rows): readonly string[] =>
  JSON.parse(rows.get(currentCatalogsTable, ['catalog'])?.digests ?? '[]')

const removeCatalog = (rows: Rows, { digest, product_ids }: CatalogRow): void => {
  for (const productId of JSON.parse(product_ids) as string[]) rows.remove(productsTable, [digest, productId])
  rows.remove(catalogsTable, [digest])
}

const importCatalog = (data: CatalogImported['data'], atMs: number, rows: Rows): void => {
  const { digest } = data
  const previousDigests = currentDigests(rows)
  const storedDigests = [digest]
  for (const formerDigest of previousDigests) {
    if (formerDigest === digest) continue
    const row = rows.get(catalogsTable, [formerDigest])
    if (row === undefined) continue
    const replacedMs = row.replaced_ms ?? atMs
    if (replacedMs < atMs - staleMs) removeCatalog(rows, row)
    else {
      storedDigests.push(formerDigest)
      rows.put(catalogsTable, { ...row, replaced_ms: replacedMs })
    }
  }
  // The first digest is the catalogue that was in force.
  const [previousDigest] = previousDigests
  for (const product of data.products) {
    const formerProduct =
      previousDigest === undefined ? undefined : rows.get(productsTable, [previousDigest, product.id])
    rows.put(productsTable, {
      digest,
      product_id: product.id,
      product: JSON.stringify(product),
      state: product.state,
      state_ms: formerProduct?.state === product.state ? formerProduct.state_ms : atMs,
    })
  }
  const product_ids = JSON.stringify(data.products.map(({ id }) => id))
  rows.put(catalogsTable, { digest, replaced_ms: null, product_ids })
  rows.put(currentCatalogsTable, { name: 'catalog', digests: JSON.stringify(storedDigests) })
}

/** Applies an event of the catalogue. Returns the problem of the event, or null. */
export const applyCatalog = (event: RecordedEvent<CatalogEvent>, rows: Rows): string | null => {
  const atMs = Date.parse(event.metadata.recordedAt)
  if (event.type === 'CatalogImported') {
    importCatalog(event.data, atMs, rows)
    const digest = catalogDigest(event.data.products.map(({ since: _, ...terms }) => terms))
    return digest === event.data.digest
      ? null
      : `it names the digest ${event.data.digest}, its products come to ${digest}`
  }
  const { productId, state } = event.data
  const [digest] = currentDigests(rows)
  const row = digest === undefined ? undefined : rows.get(productsTable, [digest, productId])
  if (row === undefined) return `the catalogue has no product ${productId}`
  if (row.state !== state) rows.put(productsTable, { ...row, state, state_ms: atMs })
  return null
}

/** The rows that `findProduct` reads. */
export const productReads = (order: {
  readonly catalogDigest: string
  readonly productId: string
}): readonly RowKey[] => [
  { table: catalogsTable.name, key: [order.catalogDigest] },
  { table: productsTable.name, key: [order.catalogDigest, order.productId] },
]

/** The product of an order in the catalogue that it names, or the reason why there is none. */
export const findProduct = (
  rows: Rows,
  order: { readonly catalogDigest: string; readonly productId: string },
  atMs: number,
): { readonly product: Product; readonly isSold: boolean } | string => {
  const { catalogDigest: digest, productId } = order
  const catalog = rows.get(catalogsTable, [digest])
  if (catalog === undefined || (catalog.replaced_ms !== null && catalog.replaced_ms < atMs - staleMs))
    return `no catalogue ${digest} was in force`
  const row = rows.get(productsTable, [digest, productId])
  if (row === undefined) return `the catalogue ${digest} has no product ${productId}`
  return {
    product: productOf(row.product),
    isSold: row.state === 'active' || row.state_ms >= atMs - staleMs,
  }
}
