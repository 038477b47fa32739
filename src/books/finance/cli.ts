import type { Command } from 'commander'
import { type Cli, type CliContext, wholeNumber } from '../../platform/cli/cli.ts'
import { ledgerCommand } from '../../platform/cli/group.ts'
import { CliMisuse } from '../../platform/cli/output.ts'
import { createProgressBar } from '../../platform/cli/progress-bar.ts'
import { createCodec } from '../../platform/eventstore/codec.ts'
import { bringBooksUp } from './books.ts'
import {
  checkBook,
  inFormat,
  momentAction,
  namedAccount,
  type Shown,
  withExamples,
  withShown,
} from './cli-input.ts'
import { createMoments } from './moment.ts'
import { type Asked, createFinanceReader, endsBeforeItBegins, type FinanceReader, isRange } from './reader.ts'
import { statementCsv, statementJson, statementText } from './statement.ts'
import {
  accountBalanceJson,
  spanText,
  sumsTable,
  trialBalanceCsv,
  trialBalanceJson,
  trialBalanceText,
} from './trial-balance.ts'

/** More lines than this are an export, not a statement. */
const maxLines = 100_000

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

const registerTrialBalance = (ledger: Command, cli: Cli): void => {
  const command = withShown(
    ledger
      .command('trial-balance')
      .summary('balances of every account in every book; each book sums to zero')
      .description(
        'balances of every account in every book; each book sums to zero. A table of balances leaves out accounts at zero; csv, json and a range (--from, --to) have every account that moved',
      ),
  )
    .option(
      '--depth <n>',
      'cut account names to so many parts, e.g. 2 for liabilities:wallet',
      wholeNumber(1, 10),
    )
    .action(
      momentAction(cli, async (context, options: Shown & { depth?: number }) => {
        checkAsked(options)
        const { head, reader } = await openReader(context)
        await checkBook(context.pool, options.book)
        const filter = { book: options.book ?? null, depth: options.depth ?? null }
        const { span, books } = await reader.trialBalance(options, head, filter)
        return inFormat(options.format, {
          json: () => trialBalanceJson(span, books),
          csv: () => trialBalanceCsv(books),
          table: () => trialBalanceText(span, books, isRange(options)),
        })
      }),
    )
  withExamples(command, [
    'npx farebox ledger trial-balance --as-of 2026-11-01',
    'npx farebox ledger trial-balance --from 2026-10-01 --to 2026-11-01 --book service --format csv',
    'npx farebox ledger trial-balance --as-of pos_0_1284 --depth 2',
  ])
}

const registerAccount = (ledger: Command, cli: Cli): void => {
  const command = withShown(
    ledger
      .command('account <account>')
      .description('the balance of an account and of those below it, e.g. revenue or acc_… for a wallet'),
  ).action(
    momentAction(cli, async (context, given: string, options: Shown) => {
      checkAsked(options)
      const { head, reader } = await openReader(context)
      const found = await namedAccount(context.pool, given, { book: options.book, below: true })
      const { span, accounts } = await reader.account(options, head, found)
      const books = [{ book: found.book, accounts }]
      return inFormat(options.format, {
        json: () => accountBalanceJson(span, { book: found.book, accounts }, found.account),
        csv: () => trialBalanceCsv(books),
        table: () =>
          `${found.account} in the book ${found.book}, US dollars, ${spanText(span, isRange(options))}\n\n${sumsTable(accounts, isRange(options))}`,
      })
    }),
  )
  withExamples(command, [
    'npx farebox ledger account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
    'npx farebox ledger account revenue --from 2026-10-01 --to 2026-11-01',
    'npx farebox ledger account equity:funding --book reseller:acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  ])
}

const registerStatement = (ledger: Command, cli: Cli): void => {
  const command = withShown(
    ledger
      .command('statement <account>')
      .description('what moved an account, oldest first, with its balance after each line'),
  ).action(
    momentAction(cli, async (context, given: string, options: Shown) => {
      checkAsked(options)
      const { head, reader } = await openReader(context)
      const found = await namedAccount(context.pool, given, { book: options.book, below: false })
      const filter = { ...found, below: false }
      const { totals } = await reader.totals(options, head, filter)
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
    'npx farebox ledger statement acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --from 2026-10-01 --to 2026-11-01',
    'npx farebox ledger statement assets:gateway:manual --format csv',
  ])
}

/** `ledger trial-balance|account|statement` */
export const registerLedger = (program: Command, cli: Cli): void => {
  const ledger = ledgerCommand(program)
  registerTrialBalance(ledger, cli)
  registerAccount(ledger, cli)
  registerStatement(ledger, cli)
}
