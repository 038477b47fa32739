import type { Command } from 'commander'
import { type Cli, type CliContext, wholeNumber } from '../cli/cli.ts'
import { ledgerCommand } from '../cli/group.ts'
import { CliMisuse } from '../cli/output.ts'
import { createProgressBar } from '../cli/progress-bar.ts'
import { createCodec } from '../eventstore/codec.ts'
import { bringBooksUp } from './books.ts'
import {
  bookOption,
  type Format,
  findAccount,
  formatOption,
  inFormat,
  misuseOf,
  momentOption,
  withExamples,
} from './cli-input.ts'
import { createMoments, type Moment, momentForms } from './moment.ts'
import { type Asked, createFinanceReader, type FinanceReader, isRange } from './reader.ts'
import { statementCsv, statementJson, statementText } from './statement.ts'
import { spanText, sumsTable, trialBalanceCsv, trialBalanceJson, trialBalanceText } from './trial-balance.ts'

type Given = {
  readonly asOf?: Moment
  readonly from?: Moment
  readonly to?: Moment
  readonly book?: string
  readonly format: Format
}

/** More lines than this are an export, not a statement. */
const maxLines = 100_000

const asOfHelp = `the last position at or before it: ${momentForms}`
const fromHelp = 'only what came from there on (a position or a time)'
const toHelp = 'only what came before it (a position or a time)'

/** Opens the journal as of the log's head, which a server or else this command brings it up to. */
export const openReader = async (context: CliContext): Promise<{ head: number; reader: FinanceReader }> => {
  const bar = createProgressBar(process.stderr)
  const head = await bringBooksUp({ ...context, decode: createCodec().decode }, bar)
  return { head, reader: createFinanceReader({ pool: context.pool, moments: createMoments(context) }) }
}

const refuseBoth = (asked: Asked): void => {
  if (asked.asOf && isRange(asked)) throw new CliMisuse('give --as-of, or --from and --to, not both')
}

const registerTrialBalance = (ledger: Command, cli: Cli): void => {
  const command = ledger
    .command('trial-balance')
    .description('balances of every account in every book; each book sums to zero')
    .option('--as-of <moment>', asOfHelp, momentOption)
    .option('--from <moment>', fromHelp, momentOption)
    .option('--to <moment>', toHelp, momentOption)
    .option('--book <name>', bookOption)
    .option(
      '--depth <n>',
      'cut account names to so many parts, e.g. 2 for liabilities:wallet',
      wholeNumber(1, 10),
    )
    .addOption(formatOption())
    .action(
      cli.action(async (context, options: Given & { depth?: number }) => {
        refuseBoth(options)
        const { head, reader } = await openReader(context)
        const filter = { book: options.book ?? null, depth: options.depth ?? null }
        const { span, books } = await reader.trialBalance(options, head, filter).catch((error) => {
          throw misuseOf(error)
        })
        if (options.book !== undefined && books.length === 0) {
          const known = await reader.trialBalance({}, head, { ...filter, depth: 1 })
          if (known.books.length === 0)
            throw new CliMisuse(`there is no book ${options.book}; a book is ${bookOption}`, {}, 'not_found')
        }
        return inFormat(options.format, {
          json: () => trialBalanceJson(span, books),
          csv: () => trialBalanceCsv(books),
          table: () => trialBalanceText(span, books, isRange(options)),
        })
      }),
    )
  withExamples(command, [
    'farebox ledger trial-balance --as-of 2026-12-01',
    'farebox ledger trial-balance --from 2026-11-01 --to 2026-12-01 --book service --format csv',
    'farebox ledger trial-balance --as-of 1284 --depth 2',
  ])
}

const registerAccount = (ledger: Command, cli: Cli): void => {
  const command = ledger
    .command('account <account>')
    .description('the balance of an account and of those below it, e.g. revenue or acc_… for a wallet')
    .option('--as-of <moment>', asOfHelp, momentOption)
    .option('--from <moment>', fromHelp, momentOption)
    .option('--to <moment>', toHelp, momentOption)
    .option('--book <name>', bookOption)
    .addOption(formatOption())
    .action(
      cli.action(async (context, given: string, options: Given) => {
        refuseBoth(options)
        const { head, reader } = await openReader(context)
        const found = await findAccount(context.pool, given, { book: options.book, below: true })
        const { span, accounts } = await reader.account(options, head, found).catch((error) => {
          throw misuseOf(error)
        })
        const books = [{ book: found.book, accounts }]
        return inFormat(options.format, {
          json: () => ({ account: found.account, ...trialBalanceJson(span, books) }),
          csv: () => trialBalanceCsv(books),
          table: () =>
            `${found.account} in the book ${found.book}, US dollars, ${spanText(span, isRange(options))}\n\n${sumsTable(accounts, isRange(options))}`,
        })
      }),
    )
  withExamples(command, [
    'farebox ledger account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
    'farebox ledger account revenue --from 2026-11-01 --to 2026-12-01',
    'farebox ledger account equity:funding --book reseller:acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  ])
}

const registerStatement = (ledger: Command, cli: Cli): void => {
  const command = ledger
    .command('statement <account>')
    .description('what moved an account, oldest first, with its balance after each line')
    .option('--from <moment>', fromHelp, momentOption)
    .option('--to <moment>', toHelp, momentOption)
    .option('--as-of <moment>', asOfHelp, momentOption)
    .option('--book <name>', bookOption)
    .addOption(formatOption())
    .action(
      cli.action(async (context, given: string, options: Given) => {
        refuseBoth(options)
        const { head, reader } = await openReader(context)
        const found = await findAccount(context.pool, given, { book: options.book, below: false })
        const filter = { ...found, below: false }
        const { totals } = await reader.totals(options, head, filter).catch((error) => {
          throw misuseOf(error)
        })
        if (totals.lines > maxLines)
          throw new CliMisuse(
            `${totals.lines} lines are too many for a statement: narrow them with --from and --to, or use "ledger export"`,
          )
        const statement = await reader.statement(options, head, filter, { limit: maxLines, offset: 0 })
        return inFormat(options.format, {
          json: () => statementJson(statement),
          csv: () => statementCsv(statement),
          table: () => statementText(statement),
        })
      }),
    )
  withExamples(command, [
    'farebox ledger statement acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --from 2026-11-01 --to 2026-12-01',
    'farebox ledger statement assets:gateway:manual --format csv',
  ])
}

/** `ledger trial-balance|account|statement` */
export const registerLedger = (program: Command, cli: Cli): void => {
  const ledger = ledgerCommand(program)
  registerTrialBalance(ledger, cli)
  registerAccount(ledger, cli)
  registerStatement(ledger, cli)
}
