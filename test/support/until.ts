import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Waits until `check` gives something truthy and returns it; a throw of `check` counts as "not yet".
 * @throws when `timeoutMs` (default 30,000: a loaded machine is slow, not wrong) passes first, with the last error of `check` as its cause
 */
export const until = async <Value>(
  check: () => Value | Promise<Value>,
  options: { readonly timeoutMs?: number; readonly everyMs?: number; readonly what?: string } = {},
): Promise<NonNullable<Value>> => {
  const timeoutMs = options.timeoutMs ?? 30_000
  const deadlineMs = performance.now() + timeoutMs
  let lastError: unknown
  for (;;) {
    try {
      const value = await check()
      if (value) return value
      lastError = undefined
    } catch (error) {
      lastError = error
    }
    if (performance.now() > deadlineMs)
      throw new Error(`${options.what ?? 'the condition'} did not come true within ${timeoutMs} ms`, {
        cause: lastError,
      })
    await sleep(options.everyMs ?? 10)
  }
}
