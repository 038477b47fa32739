export type CsvValue = string | number | null

/** Spreadsheets read a file without the byte order mark of UTF-8 in the character set of their system. */
const mark = '\ufeff'

/**
 * What spreadsheets take for the beginning of a formula (OWASP, "CSV injection"), the wide forms among it. Some leave out
 * spaces before it.
 */
const formula = /^(?:[\t\r\n]|\s*[=+\-@\uff0b\uff0d\uff1d\uff20])/
/**
 * What begins a cell inside a field. Where the semicolon separates (most of Europe), a spreadsheet that opens these files
 * splits at it, at tabs and at line ends, also within quotes: they do not stand at the start of a cell there.
 */
const cellInside = /([;\t\r\n])(?=[ "']*[=+\-@\uff0b\uff0d\uff1d\uff20])/g
/** An amount below zero is no formula, and must stay a number. */
const negative = /^-\d+(?:\.\d+)?$/

/**
 * A field of RFC 4180, empty for null. A text that a spreadsheet would run as a formula, whole or from a separator on, gets an
 * apostrophe before it, whoever wrote it; numbers stay as they are, also those that are given as texts.
 */
export const csvField = (value: CsvValue): string => {
  if (value === null) return ''
  if (typeof value === 'number') return String(value)
  const text = formula.test(value) && !negative.test(value) ? `'${value}` : value
  if (!/[",;\t\r\n]/.test(text)) return text
  return `"${text.replace(cellInside, "$1'").replaceAll('"', '""')}"`
}

const csvLine = (values: readonly CsvValue[]): string => `${values.map(csvField).join(',')}\r\n`

/** The beginning of every CSV file (RFC 4180): the mark of UTF-8 and the heading. Lines of `csvLines` follow. */
export const csvHead = (heading: readonly string[]): string => mark + csvLine(heading)

export const csvLines = (rows: Iterable<readonly CsvValue[]>): string => Array.from(rows, csvLine).join('')

/** A whole CSV file. */
export const csv = (heading: readonly string[], rows: Iterable<readonly CsvValue[]>): string =>
  csvHead(heading) + csvLines(rows)
