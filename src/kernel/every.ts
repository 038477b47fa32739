/**
 * Calls `work` every `ms` milliseconds, until the returned function is called. It does not keep the process running.
 * For timers inside an object. Jobs of the service are workers (src/platform/work/scheduler.ts).
 */
export const every = (ms: number, work: () => void): (() => void) => {
  const timer = setInterval(work, ms)
  timer.unref()
  return () => clearInterval(timer)
}
