import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { JournalHead } from '../finance/index.ts'
import { exportLedger } from './export-log.ts'
import { exportPages } from './export-pages.ts'
import { createExportRuns } from './export-runs.ts'

export const open = (core: ServerCore, { journalHead }: { readonly journalHead: JournalHead }): Feature => {
  const { db, log, clock, calendar, codec } = core
  const exports = createExportRuns((sink, request) =>
    exportLedger({ log, decode: codec.decode, clock, calendar }, sink, request),
  )
  return { pages: exportPages({ db, calendar, journalHead, exports }) }
}
