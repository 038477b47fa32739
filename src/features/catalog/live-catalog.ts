import type pg from 'pg'
import type { Logger } from 'pino'
import type { CatalogRow } from '../../../projections/catalog.ts'
import { type Catalog, createCatalog } from '../../domain/catalog/catalog.ts'
import { emptyCatalog } from '../../domain/catalog/fold.ts'
import { createLiveRows, type LiveRows } from '../../platform/projections/live.ts'
import type { Watch } from '../../platform/projections/progress.ts'

/** The catalogue in memory: no request waits for a query. */
export type LiveCatalog = LiveRows<Catalog>

/** Holds `read.catalog`, also across a rebuild of it. */
export const createLiveCatalog = (deps: {
  readonly pool: pg.Pool
  /** Of the table `catalog`. */
  readonly watch: Watch
  readonly logger: Logger
}): LiveCatalog => {
  const { pool, watch, logger } = deps
  let revision = -1
  let table = 0

  // A table that was made anew is read again: what was in the former one may have been wrong.
  const load = async (former: Catalog | null): Promise<Catalog> => {
    const { rows } = await pool.query<Omit<CatalogRow, 'catalog_id'> & { readonly table: number }>({
      name: 'catalog-since',
      text: `select digest, imported_at, products, revision, tableoid::bigint as table from read.catalog
             where revision <> $1::bigint or tableoid::bigint <> $2::bigint`,
      values: [revision, table],
    })
    const [row] = rows
    if (row === undefined) return former ?? createCatalog(emptyCatalog)
    const catalog = createCatalog({ digest: row.digest, importedAt: row.imported_at, products: row.products })
    revision = row.revision
    table = row.table
    return catalog
  }

  return createLiveRows({ name: 'catalogue', watch, load, logger })
}
