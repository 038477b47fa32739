import type { MonotonicClock } from '../../kernel/clock.ts'
import type { LiveExits } from './live-exits.ts'

/**
 * Keeps exits as new as a request needs them, without looking while nobody asks: resolves once what is in memory is at most
 * `maxAgeMs` old. While Postgres does not answer it resolves too, and what was known before is used.
 */
export const createRecentExits = (deps: {
  readonly live: Pick<LiveExits, 'refresh'>
  readonly maxAgeMs: number
  readonly monotonicMs: MonotonicClock
  readonly onError: (error: unknown) => void
}): (() => Promise<void>) => {
  const { live, maxAgeMs, monotonicMs, onError } = deps
  let lookedMs = Number.NEGATIVE_INFINITY
  let looking: Promise<void> | null = null
  return async () => {
    if (monotonicMs() - lookedMs <= maxAgeMs) return
    looking ??= (async () => {
      const askedMs = monotonicMs()
      await live.refresh().catch(onError)
      // Also after a failure: an outage is not asked about by every request.
      lookedMs = askedMs
      looking = null
    })()
    await looking
  }
}
