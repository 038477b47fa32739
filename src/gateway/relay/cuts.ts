import type { Denied } from '../gateway-ports.ts'
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
