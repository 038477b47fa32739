import type pg from 'pg'
import { hot } from '../../projections/groups.ts'
import { readViolationProblem } from '../audit/invariant-monitor.ts'
import { invariantGroup } from '../audit/invariants/invariants.ts'
import type { Family } from '../domain/shared/order-terms.ts'
import type { ServicePart } from '../features/console/status-page.ts'
import type { LocationsByCountry } from '../features/exits/locations.ts'
import type { LiveList } from '../features/free-list/live-list.ts'
import type { LivePrices } from '../features/resellers/live-prices.ts'
import { deliveryQueue } from '../features/webhooks/delivery-queue.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Core, Projecting } from '../platform/feature/core.ts'
import { type Probe, probeOutcome } from '../platform/http/health.ts'
import { depthOf } from '../platform/work/queue-operations.ts'

const caughtUpWithinMs = 1_000

/** An account that broke a law is stopped; the others go on. */
const violationProbe = ({ pool }: Core, { progress }: Projecting): Probe => ({
  name: 'laws',
  note: true,
  check: async () =>
    (await progress.reached(invariantGroup.name, 0, caughtUpWithinMs))
      ? readViolationProblem(pool)
      : 'not checked yet',
})

/**
 * What must hold before orders can be taken: `/readyz` asks.
 * @param starting null once the start is over, else what it waits for
 */
export const readinessProbes = (
  core: Core,
  projecting: Projecting,
  prices: LivePrices,
  starting: () => string | null,
): readonly Probe[] => [
  { name: 'start', check: async () => starting() },
  { name: 'clock', check: async () => core.clockGuard.problem() },
  {
    name: 'log',
    check: async () => {
      await core.log.head()
      const frozen = core.runner.frozen()
      return frozen === 0 ? core.appends.problem() : `${frozen} appends have no outcome yet`
    },
  },
  {
    name: 'projections',
    check: async () => {
      // Finance may read later than customers: books that lag or stopped are an alarm, and orders go on.
      if (await projecting.progress.reached(hot.name, await core.log.head(), caughtUpWithinMs)) {
        await prices.refresh()
        return null
      }
      const stuck = projecting.health().filter(({ error }) => error !== null)
      return stuck.length === 0
        ? 'not caught up with the log'
        : stuck.map(({ group, error }) => `${group}: ${error}`).join('; ')
    },
  },
  ...(core.config.laws ? [violationProbe(core, projecting)] : []),
]

/** A delivery that is due for longer than this is late. */
const lateDeliveryMs = 60_000
/** Endpoints of the list are checked every quarter of an hour at the least. */
const oldListMs = 60 * 60_000

/** The parts of the service as customers know them, and how each is found to be. */
export const serviceParts = (deps: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly probes: readonly Probe[]
  readonly places: (family: Family | null) => LocationsByCountry
  readonly list: LiveList
  /** Scrapers that somebody serves now. */
  readonly scrapers: () => number
}): readonly ServicePart[] => {
  const { pool, clock, probes, places, list } = deps
  return [
    {
      name: 'Orders',
      about: 'Takes orders and payments, and answers the API.',
      state: async () => {
        const said = await Promise.all(probes.map(probeOutcome))
        return said.every((each) => each === 'ok') ? 'up' : 'down'
      },
    },
    {
      name: 'Gateway',
      about: 'Has exits that lines of plans go out through.',
      state: async () => (places(null).size > 0 ? 'up' : 'down'),
    },
    {
      name: 'Webhooks',
      about: 'Sends what happened to the endpoints of customers.',
      state: async () => {
        const { oldestDueAt } = await depthOf(pool, deliveryQueue, clock())
        return oldestDueAt !== null && clock() - Date.parse(oldestDueAt) > lateDeliveryMs ? 'late' : 'up'
      },
    },
    {
      name: 'Scrapers',
      about: 'Have providers that serve calls.',
      state: async () => (deps.scrapers() > 0 ? 'up' : 'down'),
    },
    {
      name: 'Free proxies',
      about: 'Are checked again and again.',
      state: async () => {
        const { updatedAt } = (await list.current()).page({}, 1)
        if (updatedAt === null) return 'new'
        return clock() - Date.parse(updatedAt) > oldListMs ? 'late' : 'up'
      },
    },
  ]
}
