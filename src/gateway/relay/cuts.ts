import type { Denied } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'

type Cut = (why: Denied) => void

export type AbortHandlers = {
  /**
   * Calls `cut` when the signal is aborted, or at once if it already is.
   * @returns a function that removes the handler
   */
  on(signal: AbortSignal, cut: Cut): () => void
}

const thrown: OnFault = (error) => {
  throw error
}

/**
 * Thousands of tunnels of a plan share one signal. Adding or removing a listener takes time linear in their number. So
 * each signal has one listener and a set of handlers.
 * @param onFault receives the exception of a handler; the other handlers still run
 */
export const createAbortHandlers = (onFault: OnFault = thrown): AbortHandlers => {
  const known = new WeakMap<AbortSignal, Set<Cut>>()
  const setOf = (signal: AbortSignal): Set<Cut> => {
    const before = known.get(signal)
    if (before) return before
    const abortHandlers = new Set<Cut>()
    known.set(signal, abortHandlers)
    signal.addEventListener(
      'abort',
      () => {
        for (const cut of [...abortHandlers])
          try {
            cut(signal.reason as Denied)
          } catch (error) {
            onFault(error)
          }
      },
      { once: true },
    )
    return abortHandlers
  }
  return {
    on: (signal, cut) => {
      if (signal.aborted) {
        cut(signal.reason as Denied)
        return () => undefined
      }
      const abortHandlers = setOf(signal)
      abortHandlers.add(cut)
      return () => void abortHandlers.delete(cut)
    },
  }
}
