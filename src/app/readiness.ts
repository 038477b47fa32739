import { hot } from '../../projections/groups.ts'
import { readLawProblem } from '../books/audit/law-guard.ts'
import { lawGroup } from '../books/audit/laws.ts'
import type { Probe } from '../platform/http/health.ts'
import type { Core } from './core.ts'
import type { LivePrices } from './live-prices.ts'
import type { Projecting } from './projecting.ts'

const caughtUpWithinMs = 1_000

/** An account that broke a law is stopped; the others go on. */
const lawProbe = ({ pool }: Core, { progress }: Projecting): Probe => ({
  name: 'laws',
  note: true,
  check: async () =>
    (await progress.reached(lawGroup.name, 0, caughtUpWithinMs)) ? readLawProblem(pool) : 'not checked yet',
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
  ...(core.config.laws ? [lawProbe(core, projecting)] : []),
]
