import { setTimeout as sleep } from 'node:timers/promises'
import { machineMs } from './machine-time.ts'

/**
 * Waits until `check` gives something truthy and returns it; a throw of `check` counts as "not yet". Without `everyMs`
 * the pauses between the checks grow with the wait, from 10 to 100 ms: a check costs a request.
 * @throws when `timeoutMs` (default 30,000) pass first on a machine that has time, with the last error of `check` as its
 * cause; a loaded machine is slow, not wrong, and has as much longer as it is loaded
 */
export const until = async <Value>(
  check: () => Value | Promise<Value>,
  options: { readonly timeoutMs?: number; readonly everyMs?: number; readonly what?: string } = {},
): Promise<NonNullable<Value>> => {
  const timeoutMs = options.timeoutMs ?? 30_000
  const [startMs, deadlineMs] = [performance.now(), machineMs() + timeoutMs]
  let lastError: unknown
  for (;;) {
    try {
      const value = await check()
      if (value) return value
      lastError = undefined
    } catch (error) {
      lastError = error
    }
    if (machineMs() > deadlineMs) {
      const passedMs = Math.round(performance.now() - startMs)
      throw new Error(
        `${options.what ?? 'the condition'} did not come true within ${timeoutMs} ms (${passedMs} by the wall)`,
        { cause: lastError },
      )
    }
    await sleep(options.everyMs ?? Math.min(100, 10 + (performance.now() - startMs) / 20))
  }
}
