import { type Format, inFormat } from '../../platform/cli/options.ts'
import { CliMisuse, type CliOutput } from '../../platform/cli/output.ts'
import { momentWork, names, openReader } from './command-input.ts'
import type { Moment } from './input-forms.ts'
import { isRange, isReversedRange, type ReportRange } from './reader.ts'
import { reports, TooManyLines } from './reports.ts'

/** The options of a report: a moment or a range, a book or all, and a format. */
type ReportOptions = {
  readonly asOf?: Moment
  readonly from?: Moment
  readonly to?: Moment
  readonly book?: string
  readonly format: Format
  readonly depth?: number
}

const checkReportRange = (reportRange: ReportRange): void => {
  if (reportRange.asOf && isRange(reportRange))
    throw new CliMisuse('give --as-of, or --from and --to, not both')
  if (isReversedRange(reportRange)) throw new CliMisuse('--from must not be after --to')
}

/** Runs the command of a report, with or without an account. */
export const printReport = (name: string, takesAccount: boolean) =>
  momentWork(async (context, ...args: readonly unknown[]): Promise<CliOutput> => {
    const [account, options] = (takesAccount ? args : ['', ...args]) as [string, ReportOptions]
    checkReportRange(options)
    const { pool } = context
    const { book, depth, format } = options
    const { head, reader } = await openReader(context)
    const question = { pool, reader, head, range: options, account, book, depth, page: null, names }
    const report = reports.find((each) => each.name === name)!
    const answer = await report.read(question).catch((error) => {
      throw error instanceof TooManyLines
        ? new CliMisuse(`${error.message}: narrow them with --from and --to, or use "ledger export"`)
        : error
    })
    return inFormat(format, answer)
  })
