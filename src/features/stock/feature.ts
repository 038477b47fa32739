import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { startRentalExpiry } from './expire-rentals.ts'
import { createStockLogins } from './stock-logins.ts'
import { stockingPages, stockPages } from './stock-pages.ts'

// For the list of workers (src/app/worker-list.ts).
export { rentalExpiry } from './expire-rentals.ts'

export const open = (
  core: ServerCore,
  { catalog }: { readonly catalog: { current(): Catalog } },
): Feature => {
  const { pool, clock, runner, caughtUp, keys } = core
  const stockLogins = createStockLogins({ pool, master: keys.master })
  return {
    pages: [...stockPages({ pool, clock, caughtUp }), ...stockingPages({ catalog, runner, stockLogins })],
    workers: [() => startRentalExpiry(core)],
  }
}
