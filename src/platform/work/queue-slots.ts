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

/** A place for one attempt; released once. */
export type Slot = { release(): void }

export type Slots = {
  acquire(): Promise<Slot>
  /** How many attempts could start at once. */
  free(): number
}

/**
 * Bounds how many attempts run at once without letting slow receivers take all the places: an attempt that lasts longer
 * than `slowAfterMs` gives its place back and counts against a second, larger bound. So receivers that hang cost sockets
 * and no throughput, until so many hang that the second bound is full too.
 */
export const createSlots = (limits: {
  readonly active: number
  readonly slow: number
  readonly slowAfterMs: number
}): Slots => {
  let active = 0
  let slow = 0
  const waiting: (() => void)[] = []
  /** Attempts that are slow by now and found no room among the slow ones. */
  const overdue = new Set<() => void>()

  const start = (resolve: (slot: Slot) => void): void => {
    active += 1
    let counted: 'active' | 'slow' | 'released' = 'active'
    const becomeSlow = (): void => {
      if (counted !== 'active') return
      if (slow >= limits.slow) {
        overdue.add(becomeSlow)
        return
      }
      counted = 'slow'
      active -= 1
      slow += 1
      next()
    }
    const timer = setTimeout(becomeSlow, limits.slowAfterMs)
    resolve({
      release: () => {
        if (counted === 'released') return
        clearTimeout(timer)
        overdue.delete(becomeSlow)
        if (counted === 'active') active -= 1
        else slow -= 1
        counted = 'released'
        const [first] = overdue
        if (first && slow < limits.slow) {
          overdue.delete(first)
          first()
        }
        next()
      },
    })
  }
  const next = (): void => {
    while (active < limits.active && waiting.length > 0) waiting.shift()?.()
  }

  return {
    acquire: () =>
      new Promise((resolve) => {
        waiting.push(() => start(resolve))
        next()
      }),
    free: () => Math.max(0, limits.active - active - waiting.length),
  }
}
