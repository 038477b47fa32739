import { type Command, InvalidArgumentError, Option } from 'commander'
import type pg from 'pg'
import type { Cli, CliContext } from '../cli/cli.ts'
import { CliMisuse, type CliOutput } from '../cli/output.ts'
import { bookForms, findAccount, noSuchBook } from './find-account.ts'
import { hasBook } from './journal.ts'
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

/** @throws CliMisuse for a book that is neither the service's nor a reseller's */
export const checkBook = async (pool: pg.Pool, book: string | undefined): Promise<void> => {
  if (book !== undefined && !(await hasBook(pool, book))) throw unknownBook(book)
}

const unknownBook = (book: string) => new CliMisuse(noSuchBook(book), {}, 'not_found')

/**
 * Where an account stands (`findAccount`).
 * @throws CliMisuse where no book has it, or the books of several resellers do
 */
export const namedAccount = async (
  pool: pg.Pool,
  given: string,
  { book = null, below }: { readonly book: string | null | undefined; readonly below: boolean },
): Promise<{ readonly book: string; readonly account: string }> => {
  const found = await findAccount(pool, given, { book, below })
  switch (found.outcome) {
    case 'found':
      return { book: found.book, account: found.account }
    case 'unknown_book':
      throw unknownBook(found.book)
    case 'unknown_account': {
      const where = found.book === null ? 'no book has an' : `the book ${found.book} has no`
      const message = `${where} account ${found.account}; "ledger trial-balance" lists them all`
      throw new CliMisuse(message, {}, 'not_found')
    }
    case 'parent':
      throw new CliMisuse(
        `${found.account} stands for those below it and has no lines of its own: "ledger account ${found.account}" lists them, name one`,
      )
    case 'several_books':
      throw new CliMisuse(
        `several books have an account ${found.account}: name one with --book, e.g. ${found.books.join(', ')}`,
      )
    default:
      return found satisfies never
  }
}
