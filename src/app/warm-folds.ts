import { catalogFold } from '../domain/catalog/fold.ts'
import { ledgerFold } from '../domain/ledger/fold.ts'
import { planFold } from '../domain/plans/fold.ts'
import { stockFold } from '../domain/stock/fold.ts'
import { busyStreams } from '../platform/commands/snapshots.ts'
import type { Core } from '../platform/feature/core.ts'

/** The folds that orders depend on and that have snapshots, by their names in snapshots. */
const folds = new Map(
  [catalogFold, ledgerFold, planFold, stockFold].map((fold) => [fold.name, fold] as const),
)

/** Each stream is a snapshot of up to some ten megabytes and its tail. Other streams are read when they are used. */
const maxStreams = 100
const withinMs = 10_000

/**
 * Reads the states of the recently busy streams before the process is ready, so that their first orders need not wait.
 * It takes at most ten seconds. A failure does not stop the start.
 */
export const warmFolds = async ({ pool, log, runner, logger }: Core): Promise<void> => {
  const startedMs = performance.now()
  try {
    const recentStreams = await busyStreams(pool, await log.logId(), [...folds.keys()], maxStreams)
    const refs = recentStreams.map(({ stream, fold }) => ({ stream, fold: folds.get(fold)! }))
    const warmedCount = await runner.warm(refs, withinMs)
    if (refs.length > 0)
      logger.info(
        { streams: warmedCount, of: refs.length, tookMs: Math.round(performance.now() - startedMs) },
        'busy streams were read ahead',
      )
  } catch (err) {
    logger.warn({ err }, 'busy streams could not be read ahead: they are read when they are used')
  }
}
