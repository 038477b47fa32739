import { type Command, InvalidArgumentError, Option } from 'commander'
import type pg from 'pg'
import type { Cli, CliContext } from '../cli/cli.ts'
import { CliMisuse, type CliOutput } from '../cli/output.ts'
import type { AccountId } from '../ids.ts'
import { serviceBook, walletAccount } from '../ledger/postings.ts'
import { booksOf } from './journal.ts'
import { type Moment, momentForms, PastTheEnd, parseMoment } from './moment.ts'

/** Parses an option that names a point of the log. */
export const momentOption = (text: string): Moment => {
  const moment = parseMoment(text)
  if (moment === null) throw new InvalidArgumentError(`It must be ${momentForms}.`)
  return moment
}

export type Format = 'table' | 'csv' | 'json'

export const formatOption = (): Option =>
  new Option('--format <format>', 'how to print').choices(['table', 'csv', 'json']).default('table')

export const bookForms = 'service, or reseller:ACCOUNT_ID'

/** Adds examples under the help of a command. */
export const withExamples = (command: Command, examples: readonly string[]): Command =>
  command.addHelpText('after', `\nExamples:\n${examples.map((each) => `  ${each}`).join('\n')}`)

/** One answer in the form that was asked for; only that one is made. */
export const inFormat = (
  format: Format,
  make: { readonly json: () => unknown; readonly csv: () => string; readonly table: () => string },
): CliOutput => {
  const json = make.json()
  const text = format === 'table' ? make.table() : format === 'csv' ? make.csv() : JSON.stringify(json)
  return { json, text }
}

/** `Cli.action` of a command that takes moments: one past the end of the log is wrong use, not a failure. */
export const momentAction = <Arguments extends readonly unknown[]>(
  cli: Cli,
  work: (context: CliContext, ...given: Arguments) => Promise<CliOutput>,
) =>
  cli.action<Arguments>((context, ...given) =>
    work(context, ...given).catch((error) => {
      throw error instanceof PastTheEnd ? new CliMisuse(error.message) : error
    }),
  )

/** What a command shows: as of a moment, or of a range; of one book or all; in a format. */
export type Shown = {
  readonly asOf?: Moment
  readonly from?: Moment
  readonly to?: Moment
  readonly book?: string
  readonly format: Format
}

/** Adds the options of `Shown`. */
export const withShown = (command: Command): Command =>
  command
    .option('--as-of <moment>', `the last position at or before it: ${momentForms}`, momentOption)
    .option('--from <moment>', 'only what came from there on (a position or a time)', momentOption)
    .option('--to <moment>', 'only what came before it (a position or a time)', momentOption)
    .option('--book <name>', bookForms)
    .addOption(formatOption())

/** `acc_…` stands for its wallet, `cus_…` for a customer's credit; anything else is an account's name. */
export const accountName = (given: string): string => {
  if (/^acc_\w+$/.test(given)) return walletAccount(given as AccountId)
  return /^cus_\w+$/.test(given) ? `liabilities:customer:${given}` : given
}

/**
 * Where an account stands: in the book that was named, else in the service's, else in the only one that has it. With
 * `below` the name of a parent such as `revenue` will do.
 * @throws CliMisuse where no book has it, or the books of several resellers do
 */
export const findAccount = async (
  pool: pg.Pool,
  given: string,
  { book = null, below }: { readonly book: string | null | undefined; readonly below: boolean },
): Promise<{ readonly book: string; readonly account: string }> => {
  const account = accountName(given)
  const found = await booksOf(pool, account, { below, book })
  const [first, second] = found
  if (first === undefined && !below && (await booksOf(pool, account, { below: true, book })).length > 0)
    throw new CliMisuse(
      `${account} stands for those below it and has no lines of its own: "ledger account ${account}" lists them, name one`,
    )
  if (first === undefined)
    throw new CliMisuse(
      `${book === null ? 'no book has an' : `the book ${book} has no`} account ${account}; "ledger trial-balance" lists them all`,
      {},
      'not_found',
    )
  if (first !== serviceBook && second !== undefined)
    throw new CliMisuse(
      `several books have an account ${account}: name one with --book, e.g. ${found.join(', ')}`,
    )
  return { book: first, account }
}
