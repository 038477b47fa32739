import { CommandOverload } from './command.ts'
import type { Pending } from './pending.ts'
import type { OverloadReason, RunnerMetrics } from './ports.ts'
import type { Slots } from './slots.ts'

/** Answers commands, each once, and lets go of their streams. */
export type Answers = {
  /** Counts a command that will be answered. */
  opened(): void
  resolve(pending: Pending, answer: unknown, position: number | null): void
  reject(pending: Pending, error: Error): void
  overload(pending: Pending, reason: OverloadReason, message: string, cause?: unknown): void
  /** Commands without an answer. */
  open(): number
}

export const overloadOf = (
  metrics: RunnerMetrics | undefined,
  reason: OverloadReason,
  message: string,
  cause?: unknown,
): CommandOverload => {
  metrics?.onOverload?.(reason)
  return new CommandOverload(
    message,
    reason === 'frozen' ? 2 : 1,
    cause === undefined ? undefined : { cause },
  )
}

export const createAnswers = (
  slots: Slots,
  metrics: RunnerMetrics | undefined,
  onAnswered: () => void,
): Answers => {
  let open = 0
  /** False for a command that was answered before, such as one that waited too long for a lost outcome. */
  const close = (pending: Pending): boolean => {
    if (pending.answered) return false
    pending.answered = true
    for (const { slot } of pending.uses) slots.drop(slot)
    open--
    onAnswered()
    return true
  }
  const reject = (pending: Pending, error: Error): void => {
    if (close(pending)) pending.reject(error)
  }
  return {
    opened: () => {
      open++
    },
    resolve(pending, answer, position) {
      if (close(pending)) pending.resolve({ answer, position })
    },
    reject,
    overload(pending, reason, message, cause) {
      if (!pending.answered) reject(pending, overloadOf(metrics, reason, message, cause))
    },
    open: () => open,
  }
}
