/** A year: what is longer is no time to wait for, and stays a safe number. */
const longestMs = 31_536_000_000

/** The three forms of a date (RFC 9110, 5.6.7). One that names no zone, as that of asctime, is in GMT. */
const date = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d\d:\d\d:\d\d/
const zone = /(?:GMT|UTC|[+-]\d{4})$/

const dateMs = (text: string): number =>
  date.test(text) ? Date.parse(zone.test(text) ? text : `${text} GMT`) : Number.NaN

/**
 * The milliseconds of a `Retry-After` (RFC 9110, 10.2.3): seconds, or a date. At most a year; null for anything else. Of
 * seconds that are sent twice, with a comma between, the first count.
 */
export const retryAfterMs = (header: string | undefined | null, nowMs: number): number | null => {
  const text = header?.trim() ?? ''
  const [, seconds] = /^(\d+)(?:\s*,.*)?$/.exec(text) ?? []
  if (seconds !== undefined) return Math.min(longestMs, Number(seconds) * 1_000)
  const atMs = dateMs(text)
  return Number.isNaN(atMs) ? null : Math.min(longestMs, Math.max(0, atMs - nowMs))
}
