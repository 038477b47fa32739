/**
 * Milliseconds since the Unix epoch. Time is an input everywhere: only `main.ts` and `cli.ts` read the system clock.
 */
export type Clock = () => number

/** The beginning of the second of a time, both milliseconds. Reads that are shared by time use it. */
export const secondOf = (epochMs: number): number => epochMs - (epochMs % 1000)

/**
 * Milliseconds of a clock that never goes back and cannot be set. Its start is arbitrary, so it is for durations only.
 */
export type MonotonicClock = () => number

/**
 * Limit of the difference between the clocks of a process and of Postgres: decisions of several processes are compared
 * by time.
 */
export const maxSkewMs = 2_000
/**
 * A time that is later than the clock by more than this is in the future, milliseconds. The clocks of two processes may
 * differ by `2 * maxSkewMs`, and a decision takes some time.
 */
export const maxAheadMs = 5_000

/**
 * Whether an interval that began at `sinceMs` is over. It is also over if `sinceMs` is more than `maxAheadMs` in the
 * future, because the clock was wrong at that time and was set back. Otherwise the caller would pause until that time.
 */
export const hasElapsed = (sinceMs: number, nowMs: number, intervalMs: number): boolean =>
  nowMs < sinceMs - maxAheadMs || nowMs - sinceMs >= intervalMs

type Written = { readonly ms: number; readonly time: string }

let last: Written = { ms: Number.NaN, time: '' }
let previous = last

/** The range of `isoTime`: the beginning of the year 1 and the end of 9999, milliseconds since the epoch. */
const firstMs = Date.parse('0001-01-01T00:00:00.000Z')
const endMs = Date.parse('9999-12-31T23:59:59.999Z')

/** Whether an instant is in the range of `isoTime`. */
export const isTime = (epochMs: number): boolean => epochMs >= firstMs && epochMs <= endMs

/** Whether a text is a day of the calendar, such as `2026-11-21`. */
export const isDate = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text) && new Date(text).toJSON()?.slice(0, 10) === text

/** Whether a text is an instant such as `2026-11-21T02:30:00Z` or `2026-11-21T02:30:00+01:00` (RFC 3339). */
export const isInstant = (text: string): boolean =>
  isDate(text.slice(0, 10)) &&
  /^T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/.test(text.slice(10))

/**
 * An instant in UTC as ISO 8601 with milliseconds, e.g. `2026-11-21T02:30:00.000Z`: the only format in events and
 * answers. The last two results are cached: the decisions of a batch have the same time, and most rentals of a batch
 * end at the same time.
 * @throws RangeError outside the years 1 to 9999. Postgres cannot read such a time, so an event with it would stop the
 *   projections of all accounts. Thrown by a decision, the error fails only its command
 */
export const isoTime = (epochMs: number): string => {
  if (epochMs === last.ms) return last.time
  if (epochMs === previous.ms) return previous.time
  if (!isTime(epochMs)) throw new RangeError(`${epochMs} ms is no time of the years 1 to 9999`)
  previous = last
  last = { ms: epochMs, time: new Date(epochMs).toISOString() }
  return last.time
}

/** The UTC hour of an instant, as ISO 8601. */
export const isoHour = (ms: number): string => `${isoTime(ms).slice(0, 13)}:00:00.000Z`
