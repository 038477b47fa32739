/** A field of RFC 4180. */
export const cell = (value: string | number | null): string => {
  const text = value === null ? '' : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Comma-separated values (RFC 4180) with a heading, lines ended by LF. */
export const csv = (
  heading: readonly string[],
  rows: Iterable<readonly (string | number | null)[]>,
): string => [heading, ...rows].map((row) => row.map(cell).join(',')).join('\n')

/**
 * A text that somebody wrote. One that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV
 * injection"); JSON has it as it is.
 */
export const wording = (text: string | null): string | null =>
  text !== null && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
