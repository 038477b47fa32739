import { readFile } from 'node:fs/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type pg from 'pg'
import { type Clock, isInstant, isTime } from '../../kernel/clock.ts'
import { CliMisuse, type CliOutput, CliRefusal } from './output.ts'

export type Format = 'table' | 'csv' | 'json'

export const formatOption = (): Option =>
  new Option('--format <format>', 'how to print').choices(['table', 'csv', 'json']).default('table')

/** Adds examples to the help of a command. */
export const withExamples = (command: Command, examples: readonly string[]): Command =>
  command.addHelpText('after', `\nExamples:\n${examples.map((each) => `  ${each}`).join('\n')}`)

/** The output of a command in the chosen format. The texts of the other formats are not generated. */
export const inFormat = (
  format: Format,
  make: { readonly json: () => unknown; readonly csv: () => string; readonly table: () => string },
): CliOutput => {
  const json = make.json()
  // The printer adds the last newline.
  const csv = () => make.csv().replace(/\n$/, '')
  const text = format === 'table' ? make.table() : format === 'csv' ? csv() : JSON.stringify(json)
  return { json, text }
}

const dayMs = 86_400_000

/** Parses the name of a key or token. The log stores it permanently. */
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
 * The end that `--expires-at` or `--expires-in-days` gives, milliseconds since the epoch; null if neither is given.
 * @throws CliMisuse if both are given
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
 * For commands that show the projections of a server. Events of the last moments may be missing.
 * @throws CliRefusal overloaded if no server has created the tables yet
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
 * The UTF-8 text of a file that is named on the command line.
 * @param code of the refusal; left out: `invalid_parameter`
 * @throws CliMisuse if the file cannot be read
 */
export const readText = async (file: string, code?: string): Promise<string> => {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new CliMisuse(`${file} cannot be read: ${(error as Error).message}`, {}, code)
  }
}
