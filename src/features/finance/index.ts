export { catchUpBooks, momentWork, openReader } from './command-input.ts'
export { explainResource } from './explain.ts'
export { readFutureTime } from './future-time.ts'
export { createGatewayNames, type GatewayName, readGatewayNames } from './gateway-names.ts'
export { bookForms, type Moment, momentForms } from './input-forms.ts'
export type { JournalHead } from './journal-sums.ts'
export { createMoments, refuseMomentPastHead } from './moment.ts'
export { checkBook, nonEmptyFields, parseReportQuery, problemOf, textOf } from './pages/report-parts.ts'
export { periodCheck, startPeriodGuard } from './period-guard.ts'
export {
  type Closings,
  closingsOf,
  createPeriodFold,
  differenceOf,
  type PeriodReport,
} from './period-report.ts'
export { isReversedRange } from './reader.ts'
export { resourceIds, resourceKind } from './resource-ids.ts'
export { financeTokenCommitment } from './token-service.ts'
export { bookAccountPath, chainOf, linkedText } from './trail-pages.ts'
