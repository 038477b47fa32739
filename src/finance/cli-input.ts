import { type Command, InvalidArgumentError, Option } from 'commander'
import type pg from 'pg'
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

export const bookOption = 'service, or reseller:ACCOUNT_ID'

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

/** What cannot be asked is wrong use, not a failure. */
export const misuseOf = (error: unknown): unknown =>
  error instanceof PastTheEnd ? new CliMisuse(error.message) : error

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
