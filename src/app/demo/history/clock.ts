import type { Clock } from '../../../kernel/clock.ts'

/** The service's clock while a history is told: it goes where it is sent, creeps on as it is read, and never goes back. */
export type HistoryClock = {
  readonly read: Clock
  /** The first instant, a midnight UTC, and the last; milliseconds since the epoch. */
  readonly firstMs: number
  readonly endMs: number
  /** Goes on to an instant; from there it creeps no further than the second one, and neither is after the end. */
  goTo(ms: number, mostMs: number): void
}

/** How far it creeps each time it is read: what happens at once does not happen at one millisecond. */
const creepMs = 3

export const createHistoryClock = (firstMs: number, endMs: number): HistoryClock => {
  let nowMs = firstMs
  let mostMs = endMs
  return {
    firstMs,
    endMs,
    read: () => {
      nowMs = Math.min(nowMs + creepMs, mostMs)
      return nowMs
    },
    goTo: (ms, most) => {
      mostMs = Math.max(nowMs, Math.min(most, endMs))
      nowMs = Math.max(nowMs, Math.min(ms, mostMs))
    },
  }
}
