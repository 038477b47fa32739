import type { MonotonicClock } from '../../kernel/clock.ts'
import type { EventLog, ItemOutcome } from './port.ts'

/** Whether appends succeed. Only failed appends reveal a full disk or a read-only database: reads still succeed. */
export type AppendHealth = {
  /** The error of the last failed append. Null after a successful one, and ten seconds after the last failure. */
  problem(): string | null
}

/**
 * Appends count as failing for this time after the last failure. A service that is not ready receives no orders, so it
 * must become ready without a successful append: only the next order shows whether appends succeed again.
 */
const rememberMs = 10_000

/**
 * Returns the same log, and the health of its appends. Calls `onChange` once when appends begin to fail, and once with
 * null when an append succeeds again.
 */
export const monitorAppends = (
  log: EventLog,
  deps: {
    readonly onChange: (problem: Error | null) => void
    readonly monotonicMs?: MonotonicClock
  },
): { readonly log: EventLog; readonly health: AppendHealth } => {
  const { onChange, monotonicMs = () => performance.now() } = deps
  let lastFailure: { readonly cause: Error; readonly atMs: number } | null = null

  const noteFailure = (cause: Error): void => {
    const isNew = lastFailure === null
    lastFailure = { cause, atMs: monotonicMs() }
    if (isNew) onChange(cause)
  }
  const noteSuccess = (): void => {
    if (lastFailure === null) return
    lastFailure = null
    onChange(null)
  }
  const noteOutcomes = (outcomes: readonly ItemOutcome[]): void => {
    const failed = outcomes.find((outcome) => outcome.status === 'unavailable')
    if (failed !== undefined) noteFailure(failed.cause)
    else if (outcomes.some(({ status }) => status === 'landed')) noteSuccess()
  }

  return {
    log: {
      ...log,
      appendAll: async (items) => {
        const outcomes = await log.appendAll(items)
        noteOutcomes(outcomes)
        return outcomes
      },
    },
    health: {
      problem: () =>
        lastFailure === null || monotonicMs() - lastFailure.atMs > rememberMs
          ? null
          : `appends fail: ${lastFailure.cause.message}`,
    },
  }
}
