import type { MonotonicClock } from '../../kernel/clock.ts'
import type { EventLog, ItemOutcome } from './port.ts'

/** Whether a log that can be read takes what is appended: a full disk and a read-only database show in nothing else. */
export type AppendHealth = {
  /** Null while appends land, or none has failed for ten seconds; else why they do not. */
  problem(): string | null
}

/**
 * How long after the last failed append the log counts as taking none. Nobody sends orders to a service that is not ready,
 * so it must become ready by itself: only the next order can tell.
 */
const rememberMs = 10_000

/**
 * The same log, and what its appends say of it. `onChange` is told once when they begin to fail, and once when one lands
 * again.
 */
export const monitorAppends = (
  log: EventLog,
  deps: {
    readonly onChange: (problem: Error | null) => void
    readonly monotonicMs?: MonotonicClock
  },
): { readonly log: EventLog; readonly health: AppendHealth } => {
  const { onChange, monotonicMs = () => performance.now() } = deps
  let failing: { readonly cause: Error; readonly atMs: number } | null = null

  const fail = (cause: Error): void => {
    const isNew = failing === null
    failing = { cause, atMs: monotonicMs() }
    if (isNew) onChange(cause)
  }
  const recover = (): void => {
    if (failing === null) return
    failing = null
    onChange(null)
  }
  const hear = (outcomes: readonly ItemOutcome[]): void => {
    const failed = outcomes.find((outcome) => outcome.status === 'unavailable')
    if (failed !== undefined) fail(failed.cause)
    else if (outcomes.some(({ status }) => status === 'landed')) recover()
  }

  return {
    log: {
      ...log,
      appendAll: async (items) => {
        const outcomes = await log.appendAll(items)
        hear(outcomes)
        return outcomes
      },
    },
    health: {
      problem: () =>
        failing === null || monotonicMs() - failing.atMs > rememberMs
          ? null
          : `appends fail: ${failing.cause.message}`,
    },
  }
}
