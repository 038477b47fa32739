import type { Family } from '../../domain/shared/order-terms.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createVault } from '../../platform/vault/seal.ts'
import { createExitHealth, type ExitHealth } from './exit-health.ts'
import { exitPages } from './exit-pages.ts'
import { createExitService } from './exit-service.ts'
import { createExitLogins, createLiveExits, type LiveExits } from './live-exits.ts'
import { createLocations, createRecentExits, geoRoutes, type LocationsByCountry } from './locations.ts'

type ExitsFeature = Feature & {
  readonly live: LiveExits
  readonly health: ExitHealth
  /** The locations that lines can currently use. */
  readonly locations: (family: Family | null) => LocationsByCountry
  /** Resolves when the exits in memory are recent. */
  readonly recent: () => Promise<void>
}

export const open = (core: ServerCore, { sandbox }: { readonly sandbox: boolean }): ExitsFeature => {
  const { pool, runner, logger, monotonicMs, caughtUp } = core
  const logins = createExitLogins({ pool, vault: createVault(core.keys.master) })
  // This process only reads. Gateways find out which exits are dead.
  const health = createExitHealth({
    table: { recordFailure: async () => undefined },
    onError: () => undefined,
  })
  const live = createLiveExits({ pool, logins, health, sticky: null, sandbox })
  // A place disappears from the geo lists within ten seconds: up to seven until probes find its exits dead, plus this.
  const recent = createRecentExits({
    live,
    maxAgeMs: 1_000,
    monotonicMs,
    onError: (err) => logger.warn({ err }, 'reading the exits failed: the last known ones are used'),
  })
  const locations = createLocations({ live, health })
  const { setState } = createExitService({ runner, logins })
  return {
    live,
    health,
    locations,
    recent,
    routes: geoRoutes({ places: locations, recent }),
    pages: exitPages({ db: core.db, caughtUp, setExitState: setState }),
  }
}
