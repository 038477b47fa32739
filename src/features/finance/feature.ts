import { hot } from '../../../projections/groups.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { serviceBook } from '../../domain/ledger/books.ts'
import { type ServerCore, yieldingLog } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { FinanceDirectory } from '../../platform/http/auth.ts'
import type { Html } from '../../platform/ui/html.ts'
import { closingMicros, createJournalHead, type JournalHead } from './journal.ts'
import { createFoldRuns } from './long-runs.ts'
import { createMoments } from './moment.ts'
import { balancePages } from './pages/balance-pages.ts'
import { bookAccountPages } from './pages/book-account-pages.ts'
import { deferredRevenuePages } from './pages/deferred-revenue-page.ts'
import { manualEntryPages } from './pages/manual-entry-pages.ts'
import { createFigures, createFinanceSummary, moneyPages } from './pages/money-pages.ts'
import { closedPeriodPages, closePeriodPages, periodPages } from './pages/period-pages.ts'
import { replayPages } from './pages/replay-pages.ts'
import { createPeriods, type Periods } from './period-service.ts'
import { createFinanceReader } from './reader.ts'
import { checkReplay } from './replay.ts'
import { financeRoutes } from './routes.ts'
import { createFinanceDirectory } from './token-service.ts'
import { trailPages } from './trail-pages.ts'

// For the list of workers (src/app/worker-list.ts).
export { periodCheck } from './period-service.ts'

/** The longest wait of a page for the read tables of customers, milliseconds. */
const caughtUpMs = 1_000

type FinanceFeature = Feature & {
  readonly directory: FinanceDirectory
  /** The last position that the journal and the read tables of customers have passed. */
  readonly journalHead: JournalHead
  /** Received less returned money of each gateway, micro-dollars, by its account name in the books. */
  readonly floats: () => Promise<ReadonlyMap<string, bigint>>
  /** The figures of the home page. */
  readonly financeSummary: (nowMs: number) => Promise<Html>
  readonly periods: Pick<Periods, 'list'>
}

export const open = (
  core: ServerCore,
  { catalog }: { readonly catalog: { current(): Pick<Catalog, 'resolve'> } },
): FinanceFeature => {
  const { pool, db, log, clock, calendar, runner, codec } = core
  const { progress } = core.projecting
  const { decode } = codec
  const bookHead = createJournalHead({ log, progress })
  const journalHead = async (): Promise<number> => {
    const head = await bookHead()
    await progress.reached(hot.name, head, caughtUpMs)
    return head
  }
  const moments = createMoments({ db, log, clock, calendar })
  const reader = createFinanceReader({ db, log, moments, calendar })
  const figures = createFigures({ journalHead, reader })
  const wholeLog = yieldingLog(core)
  const periods = createPeriods({ log: wholeLog, runner, decode, calendar })
  const { replays, closings, stop } = createFoldRuns({
    replay: (until, head, onPage) => checkReplay(db, { log: wholeLog, decode, head, until, onPage }),
    close: periods.close,
    head: () => log.head(),
  })
  core.closing.add(stop)
  return {
    directory: createFinanceDirectory({
      pool,
      log,
      logger: core.logger,
      clock,
      clockProblem: core.clockGuard.problem,
    }),
    journalHead,
    periods,
    financeSummary: createFinanceSummary(figures, reader, calendar),
    floats: async () => {
      const accountFilter = { book: serviceBook, account: 'assets:gateway' }
      const { accounts } = await reader.account({}, await bookHead(), accountFilter)
      return new Map(accounts.map((sums) => [sums.account, closingMicros(sums)]))
    },
    routes: financeRoutes({ db, log, clock, calendar, progress }),
    pages: [
      ...trailPages({ db, log, journalHead, moments, calendar }),
      ...moneyPages(figures, calendar),
      ...balancePages({ db, calendar, journalHead, reader }),
      ...deferredRevenuePages({ calendar, journalHead, reader }),
      ...manualEntryPages({ calendar, journalHead, reader }),
      ...bookAccountPages({ pool, db, calendar, catalog, journalHead, reader }),
      ...periodPages({ periods, closings, calendar }),
      ...closedPeriodPages({ periods, journalHead, reader }),
      ...closePeriodPages({ periods, journalHead, reader, closings, calendar }),
      ...replayPages({ journalHead, replays, calendar }),
    ],
  }
}
