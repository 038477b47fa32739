export { catchUpBooks, momentWork, openReader } from './command-input.ts'
export { explainResource } from './explain.ts'
export { createGatewayNames, type GatewayName, readGatewayNames } from './gateway-names.ts'
export {
  bookForms,
  lastInstantOf,
  type Moment,
  momentForms,
  momentOf,
  resourceIds,
  resourceKind,
  type TypedMoment,
} from './input-forms.ts'
export type { JournalHead } from './journal.ts'
export { createMoments, readFutureTime, refuseMomentPastHead } from './moment.ts'
export { checkBook, nonEmptyFields, parseReportQuery, problemOf, textOf } from './pages/report-parts.ts'
export {
  type Closings,
  closingsOf,
  createPeriodFold,
  differenceOf,
  type PeriodEnds,
  type PeriodReport,
} from './period-report.ts'
export { periodCheck, readPeriodEnds, startPeriodGuard } from './period-service.ts'
export { isReversedRange } from './reader.ts'
export { financeTokenKind } from './token-service.ts'
export { bookAccountPath, chainOf, linkedText } from './trail-pages.ts'
