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
 * Calls `onOver` after this process could run for `limitMs` milliseconds, unless the returned function is called before.
 * On a machine without a processor to spare, and during a long computation, all timers are late, and a timer fires before
 * what arrived meanwhile is read. So the time is measured in ten steps, and a late step counts as one.
 */
export const afterRunning = (limitMs: number, onOver: () => void): (() => void) => {
  let left = 10
  const timer = setInterval(() => {
    left -= 1
    if (left > 0) return
    clearInterval(timer)
    onOver()
  }, limitMs / left)
  return () => clearInterval(timer)
}

/**
 * Settles as the promise does, or rejects with the error of `createError` after this process could run for `limitMs`
 * milliseconds. A timeout does not cancel the operation. Its later result or error is ignored.
 */
export const withTimeout = <Value>(
  promise: Promise<Value>,
  limitMs: number,
  createError: () => Error,
): Promise<Value> =>
  new Promise((resolve, reject) => {
    const stop = afterRunning(limitMs, () => reject(createError()))
    promise.then(resolve, reject).finally(stop)
  })
