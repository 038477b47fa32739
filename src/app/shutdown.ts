/**
 * Reserved for last writes and closing, after requests and connections have finished, milliseconds; at most a third.
 */
const closingMs = 5_000

/** The shortest time to close, milliseconds, independent of FAREBOX_SHUTDOWN_TIMEOUT_MS. */
const leastMs = 1_000

/** How long requests and connections may take to finish in a shutdown of `timeoutMs` milliseconds. */
export const drainMsOf = (timeoutMs: number): number => timeoutMs - Math.min(closingMs, timeoutMs / 3)

/**
 * Ends the process when its shutdown takes longer than `timeoutMs` milliseconds. A Postgres that does not answer would
 * block it for minutes. Acknowledged writes are on disk by then, and the next start does the remaining work.
 */
export const endWithin = (timeoutMs: number, end: () => void): void => {
  setTimeout(end, Math.max(leastMs, timeoutMs)).unref()
}
