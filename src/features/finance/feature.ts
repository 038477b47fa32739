import { hot } from '../../../projections/groups.ts'
import { serviceBook } from '../../domain/ledger/books.ts'
import { type ServerCore, yieldingLog } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { FinanceDirectory } from '../../platform/http/auth.ts'
import { closingMicros, createJournalHead, type JournalHead } from './journal.ts'
import { createFoldRuns } from './long-runs.ts'
import { createMoments } from './moment.ts'
import { balancePages } from './pages/balance-pages.ts'
import { bookAccountPages } from './pages/book-account-pages.ts'
import { moneyPages } from './pages/money-pages.ts'
import { closePeriodPages, periodPages } from './pages/period-pages.ts'
import { replayPages } from './pages/replay-pages.ts'
import { createPeriods } from './period-service.ts'
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
}

export const open = (core: ServerCore): FinanceFeature => {
  const { pool, db, log, clock, runner, codec } = core
  const { progress } = core.projecting
  const { decode } = codec
  const bookHead = createJournalHead({ log, progress })
  const journalHead = async (): Promise<number> => {
    const head = await bookHead()
    await progress.reached(hot.name, head, caughtUpMs)
    return head
  }
  const moments = createMoments({ db, log, clock })
  const reader = createFinanceReader({ db, log, moments })
  const wholeLog = yieldingLog(core)
  const periods = createPeriods({ log: wholeLog, runner, decode })
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
    floats: async () => {
      const accountFilter = { book: serviceBook, account: 'assets:gateway' }
      const { accounts } = await reader.account({}, await bookHead(), accountFilter)
      return new Map(accounts.map((sums) => [sums.account, closingMicros(sums)]))
    },
    routes: financeRoutes({ db, log, clock, progress }),
    pages: [
      ...trailPages({ db, log, journalHead, moments }),
      ...moneyPages({ journalHead, reader }),
      ...balancePages({ db, journalHead, reader }),
      ...bookAccountPages({ db, journalHead, reader }),
      ...periodPages({ periods, closings }),
      ...closePeriodPages({ periods, journalHead, reader, closings }),
      ...replayPages({ journalHead, replays }),
    ],
  }
}
