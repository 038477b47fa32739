/** Milliseconds since the Unix epoch. Time is an input everywhere: only `main.ts` and `cli.ts` read the system clock. */
export type Clock = () => number

/** Milliseconds of a clock that never goes back and that nobody sets, from any start: for durations alone. */
export type MonotonicClock = () => number

/** Decisions of several processes are compared by time, so a process may be this far from Postgres's clock at most. */
export const maxSkewMs = 2_000
/** Two processes may be twice that apart, and a decision takes a while. What is later than a clock by more is of its future. */
export const maxAheadMs = 5_000

/**
 * Whether an interval that began at `sinceMs` is over; also when the clock has gone back far behind its beginning, which lay in
 * a wrong future. So nothing pauses until that future has come.
 */
export const hasElapsed = (sinceMs: number, nowMs: number, intervalMs: number): boolean =>
  nowMs < sinceMs - maxAheadMs || nowMs - sinceMs >= intervalMs

type Written = { readonly ms: number; readonly time: string }

let last: Written = { ms: Number.NaN, time: '' }
let former = last

/** What the form below can say: milliseconds since the epoch at the beginning of the year 1 and the end of 9999. */
const firstMs = Date.parse('0001-01-01T00:00:00.000Z')
const endMs = Date.parse('9999-12-31T23:59:59.999Z')

/** Whether an instant has an `isoTime`. */
export const isTime = (epochMs: number): boolean => epochMs >= firstMs && epochMs <= endMs

/** Whether a text is a day of the calendar, such as `2026-11-21`. */
export const isDate = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text) && new Date(text).toJSON()?.slice(0, 10) === text

/** Whether a text is an instant such as `2026-11-21T02:30:00Z` or `2026-11-21T02:30:00+01:00` (RFC 3339). */
export const isInstant = (text: string): boolean =>
  isDate(text.slice(0, 10)) &&
  /^T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/.test(text.slice(10))

/**
 * An instant in UTC as ISO 8601 with milliseconds, e.g. `2026-11-21T02:30:00.000Z`: the one form in events and answers.
 * The last two are kept: whatever a batch decides happens at one instant, and what it rents mostly ends at one.
 * @throws RangeError outside the years 1 to 9999: Postgres reads no such time, and an event that holds one would stop the
 * read tables of everybody. Thrown while deciding it fails its command alone
 */
export const isoTime = (epochMs: number): string => {
  if (epochMs === last.ms) return last.time
  if (epochMs === former.ms) return former.time
  if (!isTime(epochMs)) throw new RangeError(`${epochMs} ms is no time of the years 1 to 9999`)
  former = last
  last = { ms: epochMs, time: new Date(epochMs).toISOString() }
  return last.time
}
