import type { FinanceReader } from '../../books/finance/reader.ts'
import type { createPeriods } from '../../books/periods/service.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { TrailDeps } from '../staff/trail-pages.ts'
import type { ExportRuns } from './export-runs.ts'

/** What the pages of finance read from: the queries of the finance API. They change nothing. */
export type FinanceDeps = TrailDeps & {
  readonly clock: Clock
  readonly reader: FinanceReader
  readonly exports: ExportRuns
  readonly periods: Pick<ReturnType<typeof createPeriods>, 'list'>
}
