export type CsvValue = string | number | null

/** What spreadsheets take for the beginning of a formula (OWASP, "CSV injection"), the wide forms among it. */
const formula = /^[=+\-@\t\r\n\uff0b\uff0d\uff1d\uff20]/
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

export const csvRow = (values: readonly CsvValue[]): string => values.map(csvField).join(',')

/** Comma-separated values (RFC 4180) with a heading, lines ended by LF. */
export const csv = (heading: readonly string[], rows: Iterable<readonly CsvValue[]>): string =>
  [heading, ...rows].map(csvRow).join('\n')
