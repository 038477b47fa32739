/**
 * Calls `work` every `ms` milliseconds, until the returned function is called. It does not keep the process running.
 * For timers inside an object. Jobs of the service are workers (src/platform/work/scheduler.ts).
 */
export const every = (ms: number, work: () => void): (() => void) => {
  const timer = setInterval(work, ms)
  timer.unref()
  return () => clearInterval(timer)
}

/**
 * Settles as the promise does, or rejects with the error of `createError` after `limitMs` milliseconds. A timeout does
 * not cancel the operation. Its later result or error is ignored.
 */
export const withTimeout = <Value>(
  promise: Promise<Value>,
  limitMs: number,
  createError: () => Error,
): Promise<Value> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(createError()), limitMs)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
