import type { MonotonicClock } from '../../kernel/clock.ts'
import type { Exchange } from './exchange.ts'

/**
 * Runs what a request has the main thread do in one go, while all others wait, and remembers the longest of these stretches
 * with the request. @returns what `run` returns
 * @throws what `run` throws
 */
export type Hold = <Result>(exchange: Exchange, run: () => Result) => Result

export const createHold =
  (monotonicMs: MonotonicClock): Hold =>
  (exchange, run) => {
    const startMs = monotonicMs()
    try {
      return run()
    } finally {
      exchange.heldMs = Math.max(exchange.heldMs, monotonicMs() - startMs)
    }
  }
