import { isolateFailures } from '../../kernel/isolate-failures.ts'
import { isTemporary } from '../commands/command.ts'

/**
 * Gathers what comes while a write is on its way into the next one. A write that fails because the database cannot answer
 * just now is tried again with the same items until `signal`, then its items are rejected: they are found again by whoever
 * comes after. Of a write that fails for another reason, the items at fault are found and rejected, and the others are
 * written.
 */
export const createBatcher = <Item>(options: {
  /** Writing an item twice changes nothing. */
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

  const writeUntilDone = async (items: readonly Item[]): Promise<ReadonlyMap<Item, unknown>> => {
    for (;;)
      try {
        return await isolateFailures(items, write, isTemporary)
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
        const failed = await writeUntilDone(batch.map(({ item }) => item))
        for (const { item, resolve, reject } of batch)
          if (failed.has(item)) reject(failed.get(item))
          else resolve()
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
