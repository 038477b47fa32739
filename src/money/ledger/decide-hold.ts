import { recall } from '../../platform/eventstore/remembered.ts'
import { micros } from '../../terms/money.ts'
import { type InsufficientBalance, insufficientBalance } from './decide.ts'
import { decided, type LedgerDecision, refused } from './decision.ts'
import type { FundsHeld, HoldCaptured, HoldReleased } from './events.ts'
import type { HoldResolution, LedgerState } from './state.ts'

export type HoldInput = Omit<FundsHeld['data'], 'availableAfterMicros'>
/** The hold stands already, unresolved. */
export type AlreadyHeld = { readonly code: 'already_held' }
/** The hold was resolved in this way; that stays. */
export type HoldResolved = { readonly code: 'hold_resolved'; readonly resolution: HoldResolution }
export type UnknownHold = { readonly code: 'unknown_hold' }

/**
 * Reserves micro-dollars for a call that is billed when it succeeds. A hold id is used once.
 * Refusals: `already_held`, `hold_resolved`, `insufficient_balance`.
 */
export const decideHold = (
  state: LedgerState,
  hold: HoldInput,
): LedgerDecision<FundsHeld, AlreadyHeld | HoldResolved | InsufficientBalance> => {
  if (state.holds.has(hold.holdId)) return refused({ code: 'already_held' })
  const resolution = recall(state.resolvedHolds, hold.holdId)
  if (resolution) return refused({ code: 'hold_resolved', resolution })
  if (micros(hold.amountMicros) <= 0) throw new RangeError(`a hold of ${hold.amountMicros} reserves nothing`)
  if (hold.amountMicros > state.availableMicros)
    return refused(insufficientBalance(state.availableMicros, hold.amountMicros))
  return decided({
    type: 'FundsHeld',
    data: { ...hold, availableAfterMicros: state.availableMicros - hold.amountMicros },
  })
}

const notOpen = (state: LedgerState, holdId: string): LedgerDecision<never, HoldResolved | UnknownHold> => {
  const resolution = recall(state.resolvedHolds, holdId)
  return refused(resolution ? { code: 'hold_resolved', resolution } : { code: 'unknown_hold' })
}

/** Bills an open hold, whole. Each hold is resolved at most once, by a capture or a release. */
export const decideCapture = (
  state: LedgerState,
  { holdId }: { readonly holdId: string },
): LedgerDecision<HoldCaptured, HoldResolved | UnknownHold> => {
  const hold = state.holds.get(holdId)
  if (!hold) return notOpen(state, holdId)
  return decided({
    type: 'HoldCaptured',
    data: { holdId, ...hold, availableAfterMicros: state.availableMicros },
  })
}

/** Gives an open hold back to the wallet, whole. */
export const decideRelease = (
  state: LedgerState,
  { holdId }: { readonly holdId: string },
): LedgerDecision<HoldReleased, HoldResolved | UnknownHold> => {
  const hold = state.holds.get(holdId)
  if (!hold) return notOpen(state, holdId)
  return decided({
    type: 'HoldReleased',
    data: { holdId, ...hold, availableAfterMicros: state.availableMicros + hold.amountMicros },
  })
}
