/** The output of a command, for programs and for people. */
export type CliOutput = {
  /** Printed by `--json`, alone on standard output. Field names are those of the API (`accountId`, `balanceCents`). */
  readonly json: unknown
  /**
   * Printed without `--json`: lines, `table(…)` or `fields(…)`. Null if the command wrote to standard output itself.
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

export type Column<Row> = {
  readonly title: string
  readonly value: (row: Row) => string | number
  /** Numbers are right-aligned by `right`. */
  readonly align?: 'left' | 'right'
}

const pad = (text: string, width: number, align: 'left' | 'right' = 'left'): string =>
  align === 'right' ? text.padStart(width) : text.padEnd(width)

/** An aligned table with a heading in capitals. `empty` is its text if there are no rows. */
export const table = <Row>(rows: readonly Row[], columns: readonly Column<Row>[], empty = 'none'): string => {
  if (rows.length === 0) return empty
  const lines = [
    columns.map(({ title }) => title.toUpperCase()),
    ...rows.map((row) => columns.map(({ value }) => String(value(row)))),
  ]
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)))
  return lines
    .map((line) =>
      line
        .map((cell, at) => pad(cell, widths[at] ?? 0, columns[at]?.align))
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
