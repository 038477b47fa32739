import type { Denied, Spending } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'

type AbortHandler = (why: Denied) => void

export type AbortHandlers = {
  /**
   * Calls `onAbort` when the signal is aborted, or at once if it already is.
   * @returns a function that removes the handler
   */
  on(signal: AbortSignal, onAbort: AbortHandler): () => void
}

const rethrow: OnFault = (error) => {
  throw error
}

/**
 * Thousands of tunnels of a plan share one signal. Adding or removing a listener takes time linear in their number. So
 * each signal has one listener and a set of handlers.
 * @param onFault receives the exception of a handler; the other handlers still run
 */
export const createAbortHandlers = (onFault: OnFault = rethrow): AbortHandlers => {
  const handlersBySignal = new WeakMap<AbortSignal, Set<AbortHandler>>()
  const handlersFor = (signal: AbortSignal): Set<AbortHandler> => {
    const existing = handlersBySignal.get(signal)
    if (existing) return existing
    const abortHandlers = new Set<AbortHandler>()
    handlersBySignal.set(signal, abortHandlers)
    signal.addEventListener(
      'abort',
      () => {
        for (const onAbort of [...abortHandlers])
          try {
            onAbort(signal.reason as Denied)
          } catch (error) {
            onFault(error)
          }
      },
      { once: true },
    )
    return abortHandlers
  }
  return {
    on: (signal, onAbort) => {
      if (signal.aborted) {
        onAbort(signal.reason as Denied)
        return () => undefined
      }
      const abortHandlers = handlersFor(signal)
      abortHandlers.add(onAbort)
      return () => void abortHandlers.delete(onAbort)
    },
  }
}

/** Takes all of the bytes or none. @returns whether they were taken */
export const reserveBytes = (spending: Spending, bytes: number, direction: 'up' | 'down'): boolean => {
  const granted = spending.take(bytes, direction)
  if (granted === bytes) return true
  if (granted > 0) spending.giveBack(granted, direction)
  return false
}

/** Limit of retries when other tunnels take the bytes that `more` announced. */
const maxTries = 100

/** Waits until all of the bytes are taken. @returns null when they are, or why none were */
export const chargeBytes = async (
  spending: Spending,
  bytes: number,
  direction: 'up' | 'down',
): Promise<Denied | null> => {
  for (let tries = 0; !reserveBytes(spending, bytes, direction); tries++) {
    const why = await spending.more(bytes, bytes)
    if (why !== null) return why
    if (tries === maxTries) throw new Error('the budget promised more and gave nothing')
  }
  return null
}
