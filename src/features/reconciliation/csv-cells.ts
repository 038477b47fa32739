import { pipeline } from 'node:stream'
import { CsvError, type Info, parse } from 'csv-parse'
import { type Decimal, parseDecimalText } from '../payments/index.ts'

/** The file is not a valid statement. The message has the place and the accepted values, but not the file's name. */
export class FileProblem extends Error {
  override readonly name = 'FileProblem'
  /** @param line of the file, from 1 */
  constructor(line: number, description: string, column?: string) {
    const where = column === undefined ? `line ${line}` : `line ${line}, column "${column}"`
    super(`${where}: ${description}`)
  }
}

const shownLength = 40

/** Text of a file for a message: shortened and without control characters for terminals. */
export const shown = (text: string): string =>
  JSON.stringify(text.length > shownLength ? `${text.slice(0, shownLength)}…` : text)

/** Headings are compared by letters and digits only: `Payment ID`, `payment_id` and `PaymentId` are equal. */
export const headingKey = (heading: string): string => heading.toLowerCase().replace(/[^a-z0-9]/g, '')

/** The cells of a record by column name. A column that the file does not have is empty. */
export type Cells = {
  readonly line: number
  /** Without surrounding spaces; may be empty. */
  text(column: string): string
  /** 1 to 200 printable characters. @throws FileProblem */
  id(column: string): string
  /** As `id`; null for an empty cell. @throws FileProblem */
  idOrNull(column: string): string | null
  /** A decimal number with a point. @throws FileProblem */
  decimal(column: string): Decimal
  /** An amount as micro-units of its currency. Must be exact unless `round` is given. @throws FileProblem */
  micros(column: string, round?: (value: Decimal) => bigint | null): bigint
  /** The first of these columns that the file has, as ISO 8601 UTC. @throws FileProblem */
  time(...columns: readonly string[]): string
  /** Letters and digits, in lower case. @throws FileProblem */
  currency(column: string): string
  problem(column: string, accepted: string): FileProblem
}

const amountForm = 'an amount is digits with a point, such as 12.50 or -3'
const timeForm =
  'a time is written 2026-11-21, 2026-11-21 02:30:00 (UTC) or with an offset, such as 2026-11-21T02:30:00+02:00'

const timeText = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,9})?)? ?(Z|UTC|[+-]\d\d:?\d\d)?)?$/

/** ISO 8601 UTC; null for an invalid time or a year before 1970. */
export const parseTime = (text: string): string | null => {
  const match = timeText.exec(text)
  if (!match) return null
  const [, day, minute = '00:00', second = ':00', zone = 'Z'] = match
  const offset = zone === 'UTC' ? 'Z' : zone.replace(/^([+-]\d\d)(\d\d)$/, '$1:$2')
  const ms = Date.parse(`${day}T${minute}${second.slice(0, 7)}${offset}`)
  // Rejects dates that do not exist, such as February 30.
  const isDay = !Number.isNaN(ms) && new Date(`${day}T00:00:00Z`).toISOString().startsWith(day as string)
  return isDay && ms >= 0 ? new Date(ms).toISOString() : null
}

/** Whole micro-units; null if the number has more decimals. */
export const exactMicros = ({ digits, scale }: Decimal): bigint | null => {
  const up = digits * 1_000_000n
  const down = 10n ** BigInt(scale)
  return up % down === 0n ? up / down : null
}

/** The number as digits with a point, without rounding. */
export const plainDecimal = ({ digits, scale }: Decimal): string => {
  const size = String(digits < 0n ? -digits : digits).padStart(scale + 1, '0')
  const integerPart = size.slice(0, size.length - scale)
  const text = scale === 0 ? integerPart : `${integerPart}.${size.slice(size.length - scale)}`
  return digits < 0n ? `-${text}` : text
}

/** The largest accepted amount of either sign: a hundred times the limit of a wallet. */
const maxMicros = 900_000_000_000_000_000n

/** @param columns the index of each column, by `headingKey` */
export const cellsOf = (columns: ReadonlyMap<string, number>, { line, cells }: CsvRecord): Cells => {
  const text = (column: string): string => (cells[columns.get(headingKey(column)) ?? -1] ?? '').trim()
  const problem = (column: string, accepted: string): FileProblem =>
    new FileProblem(
      line,
      `${text(column) === '' ? 'it is empty' : `${shown(text(column))} is not it`}; ${accepted}`,
      column,
    )
  const idOrNull = (column: string): string | null => {
    const value = text(column)
    if (value === '') return null
    if (!/^[^\p{C}]{1,200}$/u.test(value)) throw problem(column, 'an id is 1 to 200 printable characters')
    return value
  }
  const decimal = (column: string): Decimal => {
    const value = parseDecimalText(text(column))
    if (value === null) throw problem(column, amountForm)
    return value
  }
  return {
    line,
    text,
    idOrNull,
    decimal,
    problem,
    id: (column) => {
      const value = idOrNull(column)
      if (value === null) throw problem(column, 'an id is 1 to 200 printable characters')
      return value
    },
    micros: (column, round = exactMicros) => {
      const micros = round(decimal(column))
      if (micros === null) throw problem(column, `${amountForm}, with six decimals at most`)
      if (micros > maxMicros || micros < -maxMicros)
        throw problem(column, 'an amount is less than 900,000,000,000')
      return micros
    },
    time: (...headings) => {
      const column = headings.find((name) => columns.has(headingKey(name))) ?? (headings[0] as string)
      const at = parseTime(text(column))
      if (at === null) throw problem(column, timeForm)
      return at
    },
    currency: (column) => {
      const value = text(column).toLowerCase()
      if (!/^[a-z0-9]{2,20}$/.test(value))
        throw problem(column, 'a currency is 2 to 20 letters and digits, e.g. usd')
      return value
    },
  }
}

/** A record of a CSV file, and the line of the file where it begins, from 1. */
export type CsvRecord = { readonly line: number; readonly cells: readonly string[] }

/** A statement's record has at most some hundred columns and a few kilobytes. Larger records are refused. */
const maxCells = 2_000
const maxRecordLength = 1_000_000

/**
 * The number of lines that end before the first invalid UTF-8 byte of a chunk. Its first bytes may complete a character
 * of the previous chunk.
 */
const linesBefore = (chunk: Uint8Array): number => {
  const charStart = chunk.findIndex((byte) => (byte & 0xc0) !== 0x80)
  const text = new TextDecoder().decode(chunk.subarray(Math.max(0, charStart)))
  return newlinesIn(text.slice(0, text.indexOf('\ufffd')))
}

const newlinesIn = (text: string): number => text.split('\n').length - 1

/** Decodes UTF-8 with or without a byte order mark. */
async function* textOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let line = 1
  const decode = (chunk?: Uint8Array): string => {
    try {
      const text = chunk ? decoder.decode(chunk, { stream: true }) : decoder.decode()
      line += newlinesIn(text)
      return text
    } catch {
      const at = line + (chunk ? linesBefore(chunk) : 0)
      throw new FileProblem(at, 'this is no UTF-8 text; a statement is a CSV file in UTF-8')
    }
  }
  for await (const chunk of chunks) yield decode(chunk)
  yield decode()
}

const quoteProblem = 'a quote out of place: a cell with quotes in it stands in quotes, each doubled'
const parserProblems: Readonly<Partial<Record<string, string>>> = {
  CSV_INVALID_CLOSING_QUOTE: quoteProblem,
  INVALID_OPENING_QUOTE: quoteProblem,
  CSV_QUOTE_NOT_CLOSED: 'a quote that nothing ends: the file is cut off',
  CSV_MAX_RECORD_SIZE: `more than ${maxRecordLength} characters in one record`,
}

const cellProblem = (cells: readonly string[]): string | null => {
  if (cells.length > maxCells) return `more than ${maxCells} cells`
  if (cells.some((cell) => cell.includes('\0'))) return 'a NUL character; a statement is a CSV file'
  if (/\r(?!\n|$)/.test(cells.join(','))) return 'a carriage return inside a line; lines end with LF or CRLF'
  return null
}

/**
 * Parses comma-separated values (RFC 4180) as a stream, with memory for a few records. Lines end with LF or CRLF. Empty
 * lines are skipped.
 * @throws FileProblem for a misplaced quote, a record or a number of cells beyond the limits, and invalid UTF-8
 */
export async function* csvRecords(
  chunks: AsyncIterable<Uint8Array>,
  separator: string,
): AsyncGenerator<CsvRecord> {
  /** Line breaks inside cells until now. The parser's own count of lines counts a CRLF in a cell twice. */
  let breaks = 0
  const lineAfter = ({ records, empty_lines }: Pick<Info, 'records' | 'empty_lines'>): number =>
    records + empty_lines + breaks + 1
  const parser = parse({
    delimiter: separator,
    max_record_size: maxRecordLength,
    record_delimiter: ['\r\n', '\n'],
    relax_column_count: true,
    skip_empty_lines: true,
    on_record: (cells, { records, empty_lines }) => {
      const line = lineAfter({ records: records - 1, empty_lines })
      const problem = cellProblem(cells)
      if (problem !== null) throw new FileProblem(line, problem)
      breaks += newlinesIn(cells.join(''))
      // The types of the package know only the cells.
      return { line, cells } satisfies CsvRecord as unknown as string[]
    },
  })
  try {
    // An error of the pipeline ends the loop with it.
    yield* pipeline(
      textOf(chunks),
      parser,
      () => undefined,
    ) as AsyncIterable<unknown> as AsyncIterable<CsvRecord>
  } catch (error) {
    const problem = error instanceof CsvError ? parserProblems[error.code] : undefined
    if (problem === undefined) throw error
    throw new FileProblem(lineAfter(error as unknown as Info), problem)
  }
}
