import type { Pending } from './pending.ts'
import type { Slot } from './slots.ts'

/** Commands that wait to be decided, in arrival order. */
export type Queue = {
  push(pending: Pending): void
  /** Puts commands back where their arrival belongs. */
  requeue(pendings: readonly Pending[]): void
  /** Takes out up to `limit` commands that `mayGo` lets pass, in arrival order. */
  take(limit: number, mayGo: (pending: Pending) => boolean): readonly Pending[]
  waiting(): readonly Pending[]
  length(): number
}

const byArrival = (one: Pending, other: Pending): number => one.arrival - other.arrival

export const createQueue = (): Queue => {
  let queue: Pending[] = []
  return {
    push(pending) {
      queue.push(pending)
    },
    requeue(pendings) {
      if (pendings.length > 0) queue = [...pendings, ...queue].sort(byArrival)
    },
    take(limit, mayGo) {
      const taken: Pending[] = []
      const kept: Pending[] = []
      let at = 0
      for (; at < queue.length && taken.length < limit; at++) {
        const pending = queue[at]!
        if (mayGo(pending)) taken.push(pending)
        else kept.push(pending)
      }
      if (taken.length > 0) queue = kept.length > 0 ? kept.concat(queue.slice(at)) : queue.slice(at)
      return taken
    },
    waiting: () => queue,
    length: () => queue.length,
  }
}

/**
 * Keeps a command that is to stand alone apart from others of its streams while a batch is picked: a batch that was
 * refused for its data is tried again command by command.
 */
export const createSolitude = (): ((pending: Pending) => boolean) => {
  const used = new Set<Slot>()
  const alone = new Set<Slot>()
  return ({ solo, uses }) => {
    if (uses.some(({ slot }) => alone.has(slot) || (solo && used.has(slot)))) return false
    for (const { slot } of uses) {
      used.add(slot)
      if (solo) alone.add(slot)
    }
    return true
  }
}
