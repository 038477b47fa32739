export type CsvValue = string | number | null

/** The byte order mark of UTF-8. Without it, spreadsheets read a file in the character set of their system. */
const byteOrderMark = '\ufeff'

/**
 * The characters with which spreadsheets begin a formula (OWASP, "CSV injection"), including the full-width forms. Some
 * spreadsheets ignore spaces before them.
 */
const formula = /^(?:[\t\r\n]|\s*[=+\-@\uff0b\uff0d\uff1d\uff20])/
/**
 * A formula after a separator inside a field. In locales with the semicolon as separator (most of Europe), spreadsheets
 * split these files at semicolons, tabs and line ends, also within quotes: there a quote is not at the start of a cell.
 */
const cellInside = /([;\t\r\n])(?=[ "']*[=+\-@\uff0b\uff0d\uff1d\uff20])/g
/** A negative amount is not a formula and must remain a number. */
const negative = /^-\d+(?:\.\d+)?$/

/**
 * A field of RFC 4180; empty for null. A formula gets an apostrophe before it, at the start of the text or after a
 * separator, so that no spreadsheet runs it. Numbers are unchanged, including numbers in texts.
 */
export const csvField = (value: CsvValue): string => {
  if (value === null) return ''
  if (typeof value === 'number') return String(value)
  const text = formula.test(value) && !negative.test(value) ? `'${value}` : value
  if (!/[",;\t\r\n]/.test(text)) return text
  return `"${text.replace(cellInside, "$1'").replaceAll('"', '""')}"`
}

const csvLine = (values: readonly CsvValue[]): string => `${values.map(csvField).join(',')}\r\n`

/** The beginning of a CSV file (RFC 4180): the UTF-8 mark and the heading. The lines of `csvLines` follow. */
export const csvHead = (heading: readonly string[]): string => byteOrderMark + csvLine(heading)

export const csvLines = (rows: Iterable<readonly CsvValue[]>): string => Array.from(rows, csvLine).join('')

/** A complete CSV file. */
export const csv = (heading: readonly string[], rows: Iterable<readonly CsvValue[]>): string =>
  csvHead(heading) + csvLines(rows)
