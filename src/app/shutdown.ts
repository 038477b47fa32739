/** Left for writing down and closing once requests and connections have had their time, milliseconds; a third at most. */
const closingMs = 5_000

/** A process has at least so long to close, milliseconds, whatever FAREBOX_SHUTDOWN_TIMEOUT_MS says. */
const leastMs = 1_000

/** How long requests and connections may take to finish in a shutdown that may take `timeoutMs`. */
export const drainMsOf = (timeoutMs: number): number => timeoutMs - Math.min(closingMs, timeoutMs / 3)

/**
 * Ends the process when its shutdown takes longer than it may: a Postgres that says nothing would hold it up for minutes.
 * What is acknowledged is on disk by then, and the next start does what was left.
 */
export const endWithin = (timeoutMs: number, end: () => void): void => {
  setTimeout(end, Math.max(leastMs, timeoutMs)).unref()
}
