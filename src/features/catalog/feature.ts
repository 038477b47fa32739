import { hot } from '../../../projections/groups.ts'
import { createLiveStock } from '../../../projections/stock.ts'
import type { LiveStock } from '../../domain/catalog/availability.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { RefreshTerms, TermsOf } from '../../domain/catalog/pricing.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { operatorCataloguePages } from './catalogue-import-pages.ts'
import { pricePages } from './price-pages.ts'
import { createQuotes, type Quotes } from './quotes.ts'
import { catalogRoutes } from './routes.ts'
import { createSharedStock } from './views.ts'

export const open = (
  core: ServerCore,
  {
    catalog,
    ...terms
  }: {
    readonly catalog: { current(): Catalog }
    readonly termsOf: TermsOf
    readonly refreshTerms: RefreshTerms
  },
): Feature & { readonly stock: LiveStock; readonly quotes: Quotes } => {
  const { pool, db, log, runner, clock, monotonicMs, logger, reads } = core
  const stock = createSharedStock({
    source: createLiveStock({ db, clock }),
    watch: core.projecting.progress.watch(hot.name, ['stock_levels', 'resting_addresses'], { exact: true }),
    clock,
    monotonicMs,
    logger,
  })
  return {
    stock,
    quotes: createQuotes({ stock, reads, ...terms }),
    routes: catalogRoutes({ catalog, stock, reads, ...terms }),
    pages: [...pricePages({ catalog, stock }), ...operatorCataloguePages({ pool, log, runner, catalog })],
  }
}
