import { hot } from '../../projections/groups.ts'
import { readFutureTime } from '../features/finance/index.ts'
import type { LivePrices } from '../features/resellers/index.ts'
import type { ServerCore } from '../platform/feature/core.ts'
import type { Probe } from '../platform/http/health.ts'
import { unlessStopped } from '../platform/postgres/errors.ts'
import { readStoppedModels, stoppedText } from '../platform/projections/checkpoint.ts'
import { deadText, delayText } from '../platform/work/queue-operations.ts'
import { readWorkerProblem } from '../platform/work/worker-runs.ts'
import { readDelays } from './queues.ts'
import { allWorkers } from './worker-list.ts'

const caughtUpWithinMs = 1_000

/** The errors of the groups of read models in this process, each with the name of its group. */
const groupErrors = (
  { projecting }: Pick<ServerCore, 'projecting'>,
  counts: (group: string) => boolean = () => true,
): readonly string[] =>
  projecting
    .health()
    .flatMap(({ group, error }) => (error === null || !counts(group) ? [] : [`${group}: ${error}`]))

/**
 * The checks of `/readyz`: conditions for taking orders.
 * @param unready why the process takes no orders, e.g. because it starts; null: it takes them
 */
export const readinessProbes = (
  core: ServerCore,
  prices: LivePrices,
  unready: () => string | null,
): readonly Probe[] => [
  { name: 'process', check: async () => unready() },
  { name: 'clock', check: async () => core.clockGuard.problem() },
  { name: 'time', note: true, check: () => readFutureTime(core.probing.db, core.clock()) },
  {
    name: 'log',
    check: async () => {
      await core.log.head()
      const unknownCount = core.runner.unknownOutcomes()
      return unknownCount === 0 ? core.appends.problem() : `${unknownCount} appends have no outcome yet`
    },
  },
  {
    name: 'projections',
    check: async () => {
      // Only the `hot` group counts. Books that lag or stop raise an alarm, but orders continue.
      if (await core.projecting.progress.reached(hot.name, await core.log.head(), caughtUpWithinMs)) {
        await unlessStopped(prices.refresh())
        return null
      }
      return groupErrors(core).join('; ') || 'not caught up with the log'
    },
  },
  {
    name: 'read models',
    note: true,
    check: async () => {
      const stopped = (await readStoppedModels(core.probing.pool)).map(stoppedText)
      // A group of one model waits at the event that it cannot apply.
      const problems = [...stopped, ...groupErrors(core, (group) => group !== hot.name)]
      return problems.length === 0 ? null : problems.join('; ')
    },
  },
  {
    name: 'queues',
    note: true,
    check: async () => {
      const delays = await readDelays(core.probing.pool)
      const problems = delays.flatMap((delay) =>
        [delayText(delay), deadText(delay)].filter((text) => text !== null),
      )
      return problems.length === 0 ? null : problems.join('; ')
    },
  },
  {
    name: 'workers',
    note: true,
    check: () => readWorkerProblem(core.probing.pool, allWorkers, core.clock()),
  },
]
