import { catalogFold } from '../domain/catalog/fold.ts'
import { ledgerFold } from '../domain/ledger/fold.ts'
import { planFold } from '../domain/plans/fold.ts'
import { stockFold } from '../domain/stock/fold.ts'
import { busyStreams } from '../platform/commands/snapshots.ts'
import type { Core } from '../platform/feature/core.ts'

/** What orders are decided on and snapshots are taken of, by the names that snapshots carry. */
const folds = new Map(
  [catalogFold, ledgerFold, planFold, stockFold].map((fold) => [fold.name, fold] as const),
)

/** Each is a snapshot of up to some ten megabytes and its tail; the rest is read when it is used. */
const maxStreams = 100
const withinMs = 10_000

/**
 * Reads the states of the streams that were busy last, so that their first orders need not wait for it: a process is ready
 * then. It takes ten seconds at most, and that it cannot be done keeps nobody from starting.
 */
export const warmFolds = async ({ pool, log, runner, logger }: Core): Promise<void> => {
  const startedMs = performance.now()
  try {
    const busy = await busyStreams(pool, await log.logId(), [...folds.keys()], maxStreams)
    const refs = busy.map(({ stream, fold }) => ({ stream, fold: folds.get(fold)! }))
    const warmed = await runner.warm(refs, withinMs)
    if (refs.length > 0)
      logger.info(
        { streams: warmed, of: refs.length, tookMs: Math.round(performance.now() - startedMs) },
        'busy streams were read ahead',
      )
  } catch (err) {
    logger.warn({ err }, 'busy streams could not be read ahead: they are read when they are used')
  }
}
