import type { Denied } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'

type Cut = (why: Denied) => void

export type AbortHandlers = {
  /** Calls `cut` when the signal is aborted, at once if it is already. @returns what takes it off again */
  on(signal: AbortSignal, cut: Cut): () => void
}

const thrown: OnFault = (error) => {
  throw error
}

/**
 * Thousands of tunnels of a plan share one signal. Adding and removing a listener walks the list of all of them, so each
 * signal has one listener and a set.
 * @param onFault told of a cut that throws: the others go on
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
