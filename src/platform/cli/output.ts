/** The output of a command, for programs and for people. */
export type CliOutput = {
  /** Printed by `--json`, alone on standard output. Field names are those of the API (`accountId`, `balanceCents`). */
  readonly json: unknown
  /**
   * Printed without `--json`: lines, `fields(…)`. Null if the command wrote to standard output itself.
   */
  readonly text: string | null
  /** The result reports a problem: exit code 1, and no text on standard error. */
  readonly failed?: boolean
}

/**
 * An expected refusal of a valid request, such as a debit above the balance. Nothing was changed. Exit code 1; with
 * `--json` standard output has `{error, code}`. The message says what to do, in lower case and without a full stop. The
 * code is the API's if the API has one.
 */
export class CliRefusal extends Error {
  override readonly name = 'CliRefusal'
  readonly code: string
  readonly extra: Readonly<Record<string, unknown>>
  constructor(code: string, message: string, extra: Readonly<Record<string, unknown>> = {}) {
    super(message)
    this.code = code
    this.extra = extra
  }
}

/**
 * Input that commander alone cannot check: an unknown account, a position past the end, a file that is not an export.
 * Nothing was written. Exit code 2; otherwise like `CliRefusal`.
 */
export class CliMisuse extends CliRefusal {
  constructor(message: string, extra: Readonly<Record<string, unknown>> = {}, code = 'invalid_parameter') {
    super(code, message, extra)
  }
}

/** The refusal of an id or name that does not exist. */
export const notFound = (message: string): CliMisuse => new CliMisuse(message, {}, 'not_found')

/** Output that is printed as a table, by the columns that the command declares. */
export type ListOutput<Row> = Pick<CliOutput, 'json' | 'failed'> & {
  readonly rows: readonly Row[]
  /** The text of a list without rows, if the command's own does not fit. */
  readonly empty?: string
  /** Printed below the table. */
  readonly note?: string
}

/** A cell: the name of a field, or its value. Null is shown as `-`. */
type Cell<Row> = (keyof Row & string) | ((row: Row) => string | number | null | undefined)

/** The columns of a table by their titles. */
export type Columns<Row> = Readonly<Record<string, Cell<Row>>>

const cellText = <Row>(row: Row, cell: Cell<Row>): string =>
  String((typeof cell === 'function' ? cell(row) : row[cell]) ?? '-')

/** The texts of one row by their titles. */
export const cellsOf = <Row>(row: Row, columns: Columns<Row>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(columns).map(([title, cell]) => [title, cellText(row, cell)]))

/** A number, with `$` or a unit: `1,000`, `-$0.05`, `12 ms`. */
const isNumeric = (text: string): boolean => /^-?\$?\d[\d,]*(\.\d+)?( [A-Za-z%]+)?$/.test(text)

/** An aligned table with a heading in capitals. Numbers are right-aligned. `empty` is its text if there are no rows. */
export const table = <Row>(rows: readonly Row[], columns: Columns<Row>, empty = 'none'): string => {
  if (rows.length === 0) return empty
  const aligned = Object.entries(columns).map(([title, cell]) => {
    const cells = rows.map((row) => cellText(row, cell))
    const isRight =
      cells.some(isNumeric) && cells.every((text) => text === '-' || text === '' || isNumeric(text))
    const all = [title.toUpperCase(), ...cells]
    const width = Math.max(...all.map((text) => text.length))
    return all.map((text) => (isRight ? text.padStart(width) : text.padEnd(width)))
  })
  return ['', ...rows]
    .map((_, at) =>
      aligned
        .map((cells) => cells[at])
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Names and values of one record, aligned. Null is shown as `-`. */
export const fields = (values: Readonly<Record<string, string | number | boolean | null>>): string => {
  const width = Math.max(...Object.keys(values).map((name) => name.length))
  return Object.entries(values)
    .map(([name, value]) => `${name.padEnd(width)}  ${value ?? '-'}`)
    .join('\n')
}

export type Format = 'table' | 'csv' | 'json'

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

/** Breaks a text between words into lines of at most `width` characters. A longer word has a line of its own. */
export const wrapped = (text: string, width: number): readonly string[] => {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width) lines.push(`${lines.pop()} ${word}`)
    else lines.push(word)
  }
  return lines
}

/** Whole cents as dollars, e.g. `$1,000.00`, `-$0.05`. */
export const dollars = (cents: number): string => {
  const sign = cents < 0 ? '-' : ''
  const whole = Math.floor(Math.abs(cents) / 100).toLocaleString('en-US')
  return `${sign}$${whole}.${String(Math.abs(cents) % 100).padStart(2, '0')}`
}
