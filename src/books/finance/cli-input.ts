import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Cli, CliContext } from '../../platform/cli/cli.ts'
import { CliMisuse, type CliOutput } from '../../platform/cli/output.ts'
import { type AccountWords, accountsBy, bookForms } from './find-account.ts'
import { type Moment, momentForms, PastTheEnd, parseMoment } from './moment.ts'
import { thingIds } from './trail.ts'

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

const words: AccountWords = {
  list: '"ledger trial-balance"',
  below: (account) => `"ledger account ${account}"`,
  naming: 'with --book',
  refusal: (outcome, message) =>
    outcome === 'unknown_book' || outcome === 'unknown_account'
      ? new CliMisuse(message, {}, 'not_found')
      : new CliMisuse(message),
}

/** Books and accounts as commands name them. They throw CliMisuse. */
export const names = accountsBy(words)

/** `namedAccount` of a command that takes orders and positions, too. */
export const { namedAccount: namedOrOther } = accountsBy({
  ...words,
  besides: `; an order is ord_…, an entry the position of its event, e.g. pos_0_1284; these ids are taken too: ${thingIds}`,
})
