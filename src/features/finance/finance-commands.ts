import type { Command } from 'commander'
import { type Cli, type CliContext, groupCommand, wholeNumber } from '../../platform/cli/cli-context.ts'
import { inFormat, withExamples } from '../../platform/cli/options.ts'
import { CliMisuse, type CliOutput } from '../../platform/cli/output.ts'
import { momentAction, names, openReader, type ReportOptions, withReportOptions } from './command-input.ts'
import { isRange, isReversedRange, type ReportRange } from './reader.ts'
import { type Report, reports, TooManyLines } from './reports.ts'

type Given = ReportOptions & { readonly depth?: number }

const checkReportRange = (asked: ReportRange): void => {
  if (asked.asOf && isRange(asked)) throw new CliMisuse('give --as-of, or --from and --to, not both')
  if (isReversedRange(asked)) throw new CliMisuse('--from must not be after --to')
}

const registerReport = (ledger: Command, cli: Cli, report: Report): void => {
  const { name, takes, command: words } = report

  const print = async (context: CliContext, account: string, options: Given): Promise<CliOutput> => {
    checkReportRange(options)
    const { pool } = context
    const { book, depth, format } = options
    const { head, reader } = await openReader(context)
    const question = { pool, reader, head, asked: options, account, book, depth, page: null, names }
    const answer = await report.read(question).catch((error) => {
      throw error instanceof TooManyLines
        ? new CliMisuse(`${error.message}: narrow them with --from and --to, or use "ledger export"`)
        : error
    })
    return inFormat(format, answer)
  }

  const command = withReportOptions(
    ledger.command(takes.account ? `${name} <account>` : name).description(words.description),
  )
  if (words.summary !== undefined) command.summary(words.summary)
  if (takes.depth)
    command.option(
      '--depth <n>',
      'cut account names to so many parts, e.g. 2 for liabilities:wallet',
      wholeNumber(1, 10),
    )
  command.action(
    takes.account
      ? momentAction(cli, print)
      : momentAction(cli, (context, options: Given) => print(context, '', options)),
  )
  withExamples(command, words.examples)
}

/** `ledger trial-balance|account|statement`: a command for each report. */
export const registerLedger = (program: Command, cli: Cli): void => {
  const ledger = groupCommand(program, 'ledger')
  for (const report of reports) registerReport(ledger, cli, report)
}
