import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { type LiveStock, noStock, type StockCount } from './availability.ts'

type Counts = ReadonlyMap<string, readonly StockCount[]>

type Loaded = {
  readonly position: number
  readonly atMs: number
  readonly monotonicMs: number
  readonly counts: Counts
}

/**
 * Live stock that all requests of the process share: one look serves everybody who asked before it began, and stays
 * good until the read models are seen to move, at most `maxAgeMs` (100). So a caller sees what it was settled to, others'
 * orders and the end of a rest at most that much later, and a crowd of readers costs one query at a time.
 */
export const createSharedStock = (deps: {
  readonly source: Pick<LiveStock, 'all'>
  /** How far the read models are known to be; read before the look that it stands for. */
  readonly position: () => number
  /** By which rests end: when it leaps ahead, some may have. */
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly maxAgeMs?: number
}): LiveStock => {
  const { source, position, clock, monotonicMs, maxAgeMs = 100 } = deps
  let loaded: Loaded | null = null
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<Counts> | null = null

  const load = async (): Promise<Counts> => {
    next = null
    const began = { position: position(), atMs: clock(), monotonicMs: monotonicMs() }
    const counts = await source.all()
    loaded = { ...began, counts }
    return counts
  }

  const isGood = (look: Loaded): boolean =>
    look.position >= position() &&
    monotonicMs() - look.monotonicMs < maxAgeMs &&
    clock() - look.atMs < maxAgeMs

  const all = (): Promise<Counts> => {
    if (loaded !== null && isGood(loaded)) return Promise.resolve(loaded.counts)
    if (next === null) {
      next = running.then(load)
      running = next.catch(() => undefined) // each waiter hears of it; the next look is a new one
    }
    return next
  }

  return { all, of: async (productId) => (await all()).get(productId) ?? noStock }
}
