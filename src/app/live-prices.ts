import { hot } from '../../projections/groups.ts'
import { createLiveCatalog, type LiveCatalog } from '../market/catalog/live.ts'
import { createLiveTerms, type LiveTerms } from '../market/resellers/live.ts'
import type { Core } from './core.ts'
import { type Projecting, tablesMade } from './projecting.ts'

/** What every quote is made of, held in memory: catalogue and resellers' terms. */
export type LivePrices = {
  readonly catalog: LiveCatalog
  readonly terms: LiveTerms
  /**
   * Holds both once their tables are made, which takes a replay of the log at the first start of a version; resolves
   * when they are held, or when it was stopped before.
   */
  start(stopping: AbortSignal): Promise<void>
  /** Resolves once both are as the read models were when it was called. */
  refresh(): Promise<void>
  stop(): Promise<void>
}

export const createLivePrices = (
  { pool, logger }: Pick<Core, 'pool' | 'logger'>,
  { progress }: Pick<Projecting, 'progress'>,
): LivePrices => {
  const of = (table: string) => ({ pool, logger, watch: progress.watch(hot.name, [table]) })
  const catalog = createLiveCatalog(of('catalog'))
  const terms = createLiveTerms(of('reseller_terms'))
  return {
    catalog,
    terms,
    // The terms come first: while there is no catalogue, nobody is quoted a price without them.
    start: async (stopping) => {
      if (!(await tablesMade({ progress }, stopping))) return
      await terms.start()
      await catalog.start()
    },
    refresh: async () => {
      await terms.refresh()
      await catalog.refresh()
    },
    stop: async () => {
      await catalog.stop()
      await terms.stop()
    },
  }
}
