/** A year in milliseconds. Longer waits are useless, and this limit remains a safe number. */
const longestMs = 31_536_000_000

/** The three forms of a date (RFC 9110, 5.6.7). A date without a zone, such as asctime's, is in GMT. */
const date = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d\d:\d\d:\d\d/
const zone = /(?:GMT|UTC|[+-]\d{4})$/

const dateMs = (text: string): number =>
  date.test(text) ? Date.parse(zone.test(text) ? text : `${text} GMT`) : Number.NaN

/**
 * The wait of a `Retry-After` header (RFC 9110, 10.2.3) in milliseconds. The header contains seconds or a date. At
 * most a year; null for any other text. If the seconds are sent twice, with a comma in between, the first number
 * counts.
 */
export const retryAfterMs = (header: string | undefined | null, nowMs: number): number | null => {
  const text = header?.trim() ?? ''
  const [, seconds] = /^(\d+)(?:\s*,.*)?$/.exec(text) ?? []
  if (seconds !== undefined) return Math.min(longestMs, Number(seconds) * 1_000)
  const atMs = dateMs(text)
  return Number.isNaN(atMs) ? null : Math.min(longestMs, Math.max(0, atMs - nowMs))
}
