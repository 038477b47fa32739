const cell = (value: string | number | null): string => {
  const text = value === null ? '' : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Comma-separated values (RFC 4180) with a heading, lines ended by LF. */
export const csv = (
  heading: readonly string[],
  rows: Iterable<readonly (string | number | null)[]>,
): string => [heading, ...rows].map((row) => row.map(cell).join(',')).join('\n')
