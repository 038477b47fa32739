/** Milliseconds since the Unix epoch. Time is an input everywhere: only `main.ts` and `cli.ts` read the system clock. */
export type Clock = () => number

/** Milliseconds of a clock that never goes back and that nobody sets, from any start: for durations alone. */
export type MonotonicClock = () => number

let lastMs = Number.NaN
let lastTime = ''

/**
 * An instant in UTC as ISO 8601 with milliseconds, e.g. `2026-11-21T02:30:00.000Z`: the one form in events and answers.
 * The last one is kept, for whatever a batch decides happens at one instant.
 */
export const isoTime = (epochMs: number): string => {
  if (epochMs === lastMs) return lastTime
  lastTime = new Date(epochMs).toISOString()
  lastMs = epochMs
  return lastTime
}
