import type { FinanceReader } from '../../books/finance/reader.ts'
import type { createPeriods } from '../../books/periods/service.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { CustomerDeps } from '../customer/deps.ts'
import type { TrailDeps } from '../staff/trail-pages.ts'
import type { ExportRuns } from './export-runs.ts'
import type { FinanceWork } from './work.ts'

/** What the pages of finance read from, and what they have done: the queries of the finance API, the services of the commands. */
export type FinanceDeps = TrailDeps & {
  readonly clock: Clock
  readonly reader: FinanceReader
  readonly exports: ExportRuns
  readonly periods: Pick<ReturnType<typeof createPeriods>, 'list'>
  readonly work: FinanceWork
  readonly island: CustomerDeps['island']
}
