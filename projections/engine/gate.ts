/** Lets batches through, or holds them before they start: tests see what a request does while nothing is folded. */
export type Gate = {
  /** Runs one batch, once the gate is open. Rejects with the signal's reason when it is aborted before. */
  pass<Value>(signal: AbortSignal, batch: () => Promise<Value>): Promise<Value>
  /** Resolves when no batch is under way; none starts until `open`. */
  close(): Promise<void>
  open(): void
}

export const createGate = (): Gate => {
  let opened: PromiseWithResolvers<void> | null = null
  const underWay = new Set<Promise<unknown>>()
  return {
    pass: async (signal, batch) => {
      while (opened) {
        const aborted = Promise.withResolvers<never>()
        const abort = (): void => aborted.reject(signal.reason)
        signal.throwIfAborted()
        signal.addEventListener('abort', abort, { once: true })
        try {
          await Promise.race([opened.promise, aborted.promise])
        } finally {
          signal.removeEventListener('abort', abort)
        }
      }
      const running = batch()
      underWay.add(running)
      try {
        return await running
      } finally {
        underWay.delete(running)
      }
    },
    close: async () => {
      opened ??= Promise.withResolvers()
      await Promise.allSettled(underWay)
    },
    open: () => {
      opened?.resolve()
      opened = null
    },
  }
}
