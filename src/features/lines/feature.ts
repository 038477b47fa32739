import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { Family } from '../../domain/shared/order-terms.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createCredentials } from '../../platform/vault/credentials.ts'
import type { ExitHealth, LiveExits, LocationsByCountry } from '../exits/index.ts'
import { createPlanVerifier, type Gateway, type PlanFinder } from '../plans/index.ts'
import { createLineService } from './generate-lines.ts'
import { linePages, whitelistPages } from './line-pages.ts'
import { createLineSets } from './line-sets.ts'
import { lineRoutes } from './routes.ts'
import { createAddToWhitelist, createEntryIds, createWhitelist, type Whitelist } from './whitelist.ts'
import { createWhitelistRemovals, startWhitelistRemovals } from './whitelist-commitments.ts'
import { whitelistRoutes } from './whitelist-routes.ts'

// For the list of workers (src/app/worker-list.ts).
export { whitelistRemoval } from './whitelist-commitments.ts'

export const open = (
  core: ServerCore,
  dependencies: {
    /** The address of the gateway for clients. */
    readonly gateway: Gateway
    /** Whether loopback addresses are allowed on a whitelist. */
    readonly allowLoopback: boolean
    /** The target of a test command for lines, e.g. a page that shows a request's address. */
    readonly tryUrl: string
    readonly catalog: { current(): Catalog }
    readonly planFinder: PlanFinder
    readonly exits: {
      readonly live: LiveExits
      readonly health: ExitHealth
      readonly recent: () => Promise<void>
      readonly locations: (family: Family | null) => LocationsByCountry
    }
  },
): Feature & { readonly whitelist: Pick<Whitelist, 'list'> } => {
  const { pool, db, clock, runner, reads } = core
  const { gateway, allowLoopback, tryUrl, catalog, planFinder, exits } = dependencies
  const locations = async (family: Family | null) => {
    await exits.recent()
    return exits.locations(family)
  }
  const verifyPlans = createPlanVerifier(core)
  const credentials = createCredentials(core.keys.master)
  const availability = {
    catalog,
    reads,
    db,
    clock,
    exits: { index: exits.live.index, health: exits.health, recent: exits.recent },
  }
  const lines = createLineService({ ...availability, credentials, gateway, sets: createLineSets({ pool }) })
  const removals = createWhitelistRemovals({ pool, runner })
  const whitelist = createWhitelist({
    pool,
    clock,
    runner,
    removals,
    entryIdOf: createEntryIds(core.keys.master),
  })
  const addToWhitelist = createAddToWhitelist({ ...availability, whitelist, allowLoopback })
  return {
    whitelist,
    routes: [
      ...lineRoutes({ catalog, reads, db, verifyPlans, pool, runner, credentials, gateway, lines, clock }),
      ...whitelistRoutes({ catalog, reads, db, verifyPlans, whitelist, addToWhitelist }),
    ],
    pages: [
      ...linePages({ planFinder, locations, generateLines: lines, tryUrl }),
      ...whitelistPages({ planFinder, locations, whitelist, addToWhitelist }),
    ],
    workers: [() => startWhitelistRemovals({ scheduler: core.scheduler, pool, removals, clock })],
  }
}
