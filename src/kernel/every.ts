/**
 * Calls back again and again until the function that it returns is called. It keeps no process running. For a timer inside
 * an object; a job of the service is a worker (src/platform/work/scheduler.ts).
 */
export const every = (ms: number, work: () => void): (() => void) => {
  const timer = setInterval(work, ms)
  timer.unref()
  return () => clearInterval(timer)
}
