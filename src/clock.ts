/** Milliseconds since the Unix epoch. Time is an input everywhere: nothing but `main.ts` reads the system clock. */
export type Clock = () => number

/** An instant in UTC as ISO 8601 with milliseconds, e.g. `2026-11-21T02:30:00.000Z`: the one form in events and answers. */
export const isoTime = (epochMs: number): string => new Date(epochMs).toISOString()
