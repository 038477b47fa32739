import type pg from 'pg'
import type { Logger } from 'pino'
import type { CatalogRow } from '../../../projections/catalog.ts'
import { ReadsBehind } from '../../../projections/engine/reads.ts'
import { createFollower, type Follower } from '../../platform/work/follower.ts'
import { type Catalog, createCatalog } from './catalog.ts'
import { emptyCatalog } from './fold.ts'

/** The catalogue in memory, kept up with the read model: no request waits for a query. */
export type LiveCatalog = Follower & {
  /**
   * As of the last refresh.
   * @throws ReadsBehind before the first: what is not known yet must not be told as unknown
   */
  current(): Catalog
}

/**
 * Follows `read.catalog`, also across a rebuild of it. A change shows within about 200 ms on every process; the
 * process that made it may await `refresh` once the read model has folded it.
 */
export const createLiveCatalog = (deps: { readonly pool: pg.Pool; readonly logger: Logger }): LiveCatalog => {
  const { pool, logger } = deps
  let current: Catalog | null = null
  let revision = -1
  let table = 0

  // A table that was made anew is read again: what stood in the former one may have been wrong.
  const load = async (): Promise<void> => {
    const { rows } = await pool.query<Omit<CatalogRow, 'catalog_id'> & { readonly table: number }>({
      name: 'catalog-since',
      text: `select digest, imported_at, products, revision, tableoid::bigint as table from read.catalog
             where revision <> $1::bigint or tableoid::bigint <> $2::bigint`,
      values: [revision, table],
    })
    const [row] = rows
    if (row === undefined) {
      current ??= createCatalog(emptyCatalog)
      return
    }
    current = createCatalog({ digest: row.digest, importedAt: row.imported_at, products: row.products })
    revision = row.revision
    table = row.table
  }

  return {
    current: () => {
      if (current === null) throw new ReadsBehind('the catalogue is not readable yet; try again')
      return current
    },
    ...createFollower({ name: 'catalog', load, logger }),
  }
}
