/** docs/http-api.md, "Webhooks and notices": attempts of one delivery, the first one included. */
export const maxAttempts = 10

const firstDelayMs = 30_000
const maxDelayMs = 6 * 60 * 60 * 1000
const jitter = 0.1

/**
 * How long to wait after the n-th attempt failed (from 1): 30 s doubling, at most 6 h, ±10 % so that receivers that came
 * back are not hit by all at once. A `Retry-After` that asks for more is honoured up to the same cap.
 * @param random From 0 to below 1.
 */
export const retryDelayMs = (attempt: number, random: number, retryAfterMs: number | null): number => {
  const planned = Math.min(maxDelayMs, firstDelayMs * 2 ** (attempt - 1))
  const spread = planned * (1 - jitter + 2 * jitter * random)
  return Math.round(Math.min(maxDelayMs, Math.max(spread, retryAfterMs ?? 0)))
}

/** The milliseconds of a `Retry-After` (RFC 9110, 10.2.3): seconds, or a date. Null for anything else. */
export const retryAfterMs = (header: string | undefined, nowMs: number): number | null => {
  if (header === undefined) return null
  const text = header.trim()
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000
  const atMs = /^[A-Za-z]{3}/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs)
}
