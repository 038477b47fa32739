import type { MonotonicClock } from '../../kernel/clock.ts'
import { every } from '../../kernel/every.ts'

/** The time limit of one connection. */
export type ConnectionDeadline = {
  /** Sets the limit. It is counted from now and from every `touch`. */
  within(ms: number, expired: () => void): void
  /** Restarts the time limit, because there was activity. */
  touch(): void
  stop(): void
}

export type Deadlines = { watch(): ConnectionDeadline; stop(): void }

type Entry = { fromMs: number; limitMs: number; expired: () => void }

/**
 * Time limits of many connections with one timer. A touch, once for each forwarded chunk, is one assignment of the
 * time of the last sweep. A limit is accurate to two sweeps. It expires early only by the delay of a late sweep.
 */
export const createDeadlines = (clock: MonotonicClock, sweepMs: number): Deadlines => {
  const entries = new Set<Entry>()
  let nowMs = clock()
  const sweep = (): void => {
    nowMs = clock()
    // `fromMs` may be as old as the previous sweep.
    for (const entry of entries)
      if (nowMs - entry.fromMs >= entry.limitMs + sweepMs) {
        entry.fromMs = nowMs
        entry.expired()
      }
    if (entries.size === 0) stop()
  }
  let stopSweeping: (() => void) | null = null
  const stop = (): void => {
    stopSweeping?.()
    stopSweeping = null
  }
  return {
    watch: () => {
      const entry: Entry = { fromMs: clock(), limitMs: Number.POSITIVE_INFINITY, expired: () => undefined }
      entries.add(entry)
      if (stopSweeping === null) {
        nowMs = clock()
        stopSweeping = every(sweepMs, sweep)
      }
      return {
        within: (ms, expired) => {
          entry.fromMs = clock()
          entry.limitMs = ms
          entry.expired = expired
        },
        touch: () => {
          entry.fromMs = nowMs
        },
        stop: () => void entries.delete(entry),
      }
    },
    stop,
  }
}
