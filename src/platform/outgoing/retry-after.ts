/** A year: what is longer is no time to wait for, and stays a safe number. */
const longestMs = 31_536_000_000

/** The milliseconds of a `Retry-After` (RFC 9110, 10.2.3): seconds, or a date. At most a year; null for anything else. */
export const retryAfterMs = (header: string | undefined | null, nowMs: number): number | null => {
  const text = header?.trim() ?? ''
  if (/^\d+$/.test(text)) return Math.min(longestMs, Number(text) * 1_000)
  const atMs = /^[A-Za-z]{3}/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.min(longestMs, Math.max(0, atMs - nowMs))
}
