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
