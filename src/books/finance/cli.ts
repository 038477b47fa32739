import type { Command } from 'commander'
import { type Cli, type CliContext, wholeNumber } from '../../platform/cli/cli.ts'
import { ledgerCommand } from '../../platform/cli/group.ts'
import { CliMisuse, type CliOutput } from '../../platform/cli/output.ts'
import { createProgressBar } from '../../platform/cli/progress-bar.ts'
import { createCodec } from '../../platform/eventstore/codec.ts'
import { bringBooksUp } from './books.ts'
import { inFormat, momentAction, names, type Shown, withExamples, withShown } from './cli-input.ts'
import { createMoments } from './moment.ts'
import { type Asked, createFinanceReader, endsBeforeItBegins, type FinanceReader, isRange } from './reader.ts'
import { type Report, TooManyLines } from './report.ts'
import { reports } from './reports.ts'

type Given = Shown & { readonly depth?: number }

/** Opens the journal as of the log's head, which a server or else this command brings it up to. */
export const openReader = async (context: CliContext): Promise<{ head: number; reader: FinanceReader }> => {
  const bar = createProgressBar(process.stderr)
  const head = await bringBooksUp({ ...context, decode: createCodec().decode }, bar)
  return { head, reader: createFinanceReader({ ...context, moments: createMoments(context) }) }
}

const checkAsked = (asked: Asked): void => {
  if (asked.asOf && isRange(asked)) throw new CliMisuse('give --as-of, or --from and --to, not both')
  if (endsBeforeItBegins(asked)) throw new CliMisuse('--from must not be after --to')
}

const registerReport = (ledger: Command, cli: Cli, report: Report): void => {
  const { name, takes, command: words } = report

  const print = async (context: CliContext, account: string, options: Given): Promise<CliOutput> => {
    checkAsked(options)
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

  const command = withShown(
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
  const ledger = ledgerCommand(program)
  for (const report of reports) registerReport(ledger, cli, report)
}
