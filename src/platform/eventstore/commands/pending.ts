import type { Command, CommandOutcome, StreamRefs } from './command.ts'
import { absent, type FoldPoint, type Slot } from './slots.ts'

/** A stream of a command. */
export type Use = { readonly key: string; readonly slot: Slot; readonly assumeAbsent: boolean }

// biome-ignore lint/suspicious/noExplicitAny: states are recovered by the command's own types
export type AnyCommand = Command<StreamRefs, any>

/** A command that was not answered yet. */
export type Pending = {
  readonly command: AnyCommand
  readonly uses: readonly Use[]
  /** The tick at which it arrived: what was read later is fresh enough to refuse it. */
  readonly arrival: number
  /** Monotonic milliseconds. */
  readonly arrivedMs: number
  /** How often it was decided in vain. */
  attempts: number
  /** No append checks all the states that it is decided on, so each of its streams is to be read first. */
  verify: boolean
  /** The log refused a batch that it was part of: it now shares its streams with no other command of a batch. */
  solo: boolean
  answered: boolean
  readonly resolve: (outcome: CommandOutcome<unknown>) => void
  readonly reject: (error: Error) => void
}

/** Whether the log has to be read before this command can be decided on the stream. */
export const needsRead = (pending: Pending, { slot, assumeAbsent }: Use): boolean => {
  if (slot.verifiedAt <= slot.readAfter && slot.readAfter > 0) return true
  if (pending.verify) return slot.verifiedAt <= pending.arrival
  return slot.point === null && !assumeAbsent
}

/** The state to decide on when no earlier decision of the batch touched the stream. */
export const pointOf = (slot: Slot): FoldPoint => slot.point ?? absent(slot.fold)

export const isBusy = (pending: Pending): boolean => pending.uses.some(({ slot }) => slot.busy)
export const isFrozen = (pending: Pending): boolean => pending.uses.some(({ slot }) => slot.frozen)
