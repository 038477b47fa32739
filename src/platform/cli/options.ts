import { readFile } from 'node:fs/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type pg from 'pg'
import { type Clock, isInstant, isTime } from '../../kernel/clock.ts'
import { CliMisuse, type CliOutput, CliRefusal } from './output.ts'

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
  // What prints the text ends its last line.
  const csv = () => make.csv().replace(/\n$/, '')
  const text = format === 'table' ? make.table() : format === 'csv' ? csv() : JSON.stringify(json)
  return { json, text }
}

const dayMs = 86_400_000

/** Parses the name of a key or token. It stays in the log for good. */
export const nameOption = (text: string): string => {
  if (!/^[^\p{C}]{1,100}$/u.test(text))
    throw new InvalidArgumentError('It must be 1 to 100 printable characters.')
  return text
}

/** Parses an instant into milliseconds since the epoch. */
export const instantOption = (text: string): number => {
  if (!isInstant(text) || !isTime(Date.parse(text)))
    throw new InvalidArgumentError('It must be an instant such as 2027-01-01T00:00:00Z.')
  return Date.parse(text)
}

/**
 * When something ends that was asked for with `--expires-at` or `--expires-in-days`, milliseconds; null for neither.
 * @throws CliMisuse for both
 */
export const expiryOf = (
  { clock }: { readonly clock: Clock },
  { expiresAt, expiresInDays }: { readonly expiresAt?: number; readonly expiresInDays?: number },
): number | null => {
  if (expiresAt !== undefined && expiresInDays !== undefined)
    throw new CliMisuse('give --expires-at or --expires-in-days, not both')
  return expiresAt ?? (expiresInDays === undefined ? null : clock() + expiresInDays * dayMs)
}

/**
 * For commands that show what a server's projections made. What a server wrote a moment ago may be missing.
 * @throws CliRefusal overloaded: no server has made them yet
 */
export const requireReadTable = async (pool: pg.Pool, table: `read.${string}`): Promise<void> => {
  const { rows } = await pool.query<{ made: boolean }>('select to_regclass($1::text) is not null as made', [
    table,
  ])
  if (rows[0]?.made !== true)
    throw new CliRefusal(
      'overloaded',
      'the read tables are not made yet; start the server, which makes them, and ask again',
    )
}

/**
 * The text of a file that was named on the command line, UTF-8.
 * @param code of the refusal; left out: `invalid_parameter`
 * @throws CliMisuse when it cannot be read
 */
export const readText = async (file: string, code?: string): Promise<string> => {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new CliMisuse(`${file} cannot be read: ${(error as Error).message}`, {}, code)
  }
}
