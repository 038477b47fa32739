import { isolateFailures } from '../../kernel/isolate-failures.ts'
import { isTemporary } from '../commands/command.ts'

/**
 * Collects items during a write for the next write. If the database cannot answer, the same items are written again
 * until `signal` is aborted; then they are rejected, and a later worker finds them again. If a write fails for
 * another reason, the items at fault are found and rejected, and the others are written.
 */
export const createBatcher = <Item>(options: {
  /** Must be idempotent: an item may be written twice. */
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
      // Items that end in this turn of the event loop share the write.
      setImmediate(() => void run())
    })
}

/** A slot for one attempt. Release it once. */
export type Slot = { release(): void }

export type Slots = {
  acquire(): Promise<Slot>
  /** The number of attempts that could start now. */
  free(): number
}

/**
 * Limits the number of concurrent attempts, without letting slow receivers use all slots. An attempt that lasts
 * longer than `slowAfterMs` releases its slot and counts against a second, larger limit. So receivers that hang cost
 * sockets but no throughput, until so many hang that the second limit is reached, too.
 */
export const createSlots = (limits: {
  readonly active: number
  readonly slow: number
  readonly slowAfterMs: number
}): Slots => {
  let active = 0
  let slow = 0
  const waiting: (() => void)[] = []
  /** Slow attempts for which the second limit has no room. */
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
