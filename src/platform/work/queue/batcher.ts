/**
 * Gathers what comes while a write is on its way into the next one. A write that fails is tried again with the same
 * items until `signal`, then its items are rejected: they are found again by whoever comes after.
 */
export const createBatcher = <Item>(options: {
  readonly write: (items: readonly Item[]) => Promise<void>
  readonly maxItems: number
  readonly onError: (error: unknown) => void
  readonly retryMs: number
  readonly signal: AbortSignal
}): ((item: Item) => Promise<void>) => {
  const { write, maxItems, onError, retryMs, signal } = options
  type Waiting = { readonly item: Item; resolve(): void; reject(error: unknown): void }
  const waiting: Waiting[] = []
  let running = false

  const writeUntilDone = async (items: readonly Item[]): Promise<void> => {
    for (;;)
      try {
        return await write(items)
      } catch (error) {
        onError(error)
        if (signal.aborted) throw error
        await new Promise((resolve) => setTimeout(resolve, retryMs))
      }
  }

  const run = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, maxItems)
      try {
        await writeUntilDone(batch.map(({ item }) => item))
        for (const { resolve } of batch) resolve()
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    running = false
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      if (running) return
      running = true
      // What ends in this turn of the event loop shares the write.
      setImmediate(() => void run())
    })
}
