import type pg from 'pg'
import type { Logger } from 'pino'
import type { CatalogRow } from '../../projections/catalog.ts'
import { ReadsBehind } from '../../projections/engine/reads.ts'
import { createFollower, type Follower } from '../follower.ts'
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

  const load = async (): Promise<void> => {
    const { rows } = await pool.query<Omit<CatalogRow, 'catalog_id'>>({
      name: 'catalog-since',
      text: `select digest, imported_at, products, revision from read.catalog where revision <> $1::bigint`,
      values: [revision],
    })
    const [row] = rows
    if (row === undefined) {
      current ??= createCatalog(emptyCatalog)
      return
    }
    current = createCatalog({ digest: row.digest, importedAt: row.imported_at, products: row.products })
    revision = row.revision
  }

  return {
    current: () => {
      if (current === null) throw new ReadsBehind('the catalogue is not readable yet; try again')
      return current
    },
    ...createFollower({ name: 'catalog', load, logger }),
  }
}
