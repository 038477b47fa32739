/** Told of what the queues of a process do; `src/app/work-metrics.ts` counts it. */
export type WorkMetrics = {
  /** A queue is worked off here; `inFlight` is how many of its items run. */
  running(queue: string, inFlight: () => number): void
  /** What became of an item: `again` will be tried again, `dead` was given up. */
  ended(queue: string, outcome: 'done' | 'again' | 'dead'): void
}
