import type { StreamRefs } from '../../kernel/decider.ts'
import { type Command, type CommandOutcome, CommandOverload } from './command.ts'
import { emptyPoint, type FoldPoint, type Slot, type Slots } from './fold-cache.ts'
import type { OverloadReason, RunnerMetrics } from './runner-ports.ts'

/** Answers commands, each once, and lets go of their streams. */
export type Answers = {
  /** Counts a command that will be answered. */
  opened(): void
  resolve(pending: PendingCommand, answer: unknown, position: number | null): void
  reject(pending: PendingCommand, error: Error): void
  overload(pending: PendingCommand, reason: OverloadReason, message: string, cause?: unknown): void
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
  const close = (pending: PendingCommand): boolean => {
    if (pending.answered) return false
    pending.answered = true
    for (const { slot } of pending.uses) slots.release(slot)
    open--
    onAnswered()
    return true
  }
  const reject = (pending: PendingCommand, error: Error): void => {
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

/** What was thrown as an Error, whatever it was. */
export const asError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown))

/** A stream of a command. */
export type StreamUse = { readonly key: string; readonly slot: Slot; readonly assumeAbsent: boolean }

// biome-ignore lint/suspicious/noExplicitAny: states are recovered by the command's own types
export type AnyCommand = Command<StreamRefs, any>

/** A command that was not answered yet. */
export type PendingCommand = {
  readonly command: AnyCommand
  readonly uses: readonly StreamUse[]
  /** The tick at which it arrived: what was read later is fresh enough to refuse it. */
  readonly arrival: number
  /** Monotonic milliseconds. */
  readonly arrivedMs: number
  /** How often it was decided in vain. */
  attempts: number
  /** No append checks all the states that it is decided on, so each of its streams is to be read first. */
  verify: boolean
  /** The log refused a batch that it was part of: it now shares its streams with no other command of a batch. */
  exclusive: boolean
  answered: boolean
  readonly resolve: (outcome: CommandOutcome<unknown>) => void
  readonly reject: (error: Error) => void
}

/** Whether the log has to be read before this command can be decided on the stream. */
export const needsRead = (pending: PendingCommand, { slot, assumeAbsent }: StreamUse): boolean => {
  if (slot.verifiedAt <= slot.readAfter && slot.readAfter > 0) return true
  if (pending.verify) return slot.verifiedAt <= pending.arrival
  return slot.point === null && !assumeAbsent
}

/** The state to decide on when no earlier decision of the batch touched the stream. */
export const pointOf = (slot: Slot): FoldPoint => slot.point ?? emptyPoint(slot.fold)

export const isBusy = (pending: PendingCommand): boolean => pending.uses.some(({ slot }) => slot.busy)
export const isBlocked = (pending: PendingCommand): boolean => pending.uses.some(({ slot }) => slot.blocked)
