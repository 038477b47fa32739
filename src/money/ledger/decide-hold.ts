import { type Refused, refused } from '../../platform/eventstore/decision.ts'
import { micros } from '../../terms/money.ts'
import { type InsufficientBalance, insufficientBalance } from './decide.ts'
import { type LedgerDecision, moves } from './decision.ts'
import type { FundsHeld, HoldCaptured, HoldReleased } from './events.ts'
import { movementKey, recallMovement } from './movements.ts'
import { take } from './purse.ts'
import type { LedgerState } from './state.ts'

export type HoldInput = Omit<FundsHeld['data'], 'availableAfterMicros'>
/** The hold stands already, unresolved. */
export type AlreadyHeld = { readonly code: 'already_held' }
/** The hold was resolved in this way; that stays. */
export type HoldResolved = { readonly code: 'hold_resolved'; readonly resolution: 'captured' | 'released' }
export type UnknownHold = { readonly code: 'unknown_hold' }

const resolutionOf = (state: LedgerState, holdId: string): Refused<HoldResolved> | null => {
  if (recallMovement(state, movementKey.capture(holdId)))
    return refused({ code: 'hold_resolved', resolution: 'captured' })
  if (recallMovement(state, movementKey.release(holdId)))
    return refused({ code: 'hold_resolved', resolution: 'released' })
  return null
}

/**
 * Reserves micro-dollars for a call that is billed when it succeeds. A hold id is used once.
 * Refusals: `already_held`, `hold_resolved`, `insufficient_balance`.
 */
export const decideHold = (
  state: LedgerState,
  hold: HoldInput,
): LedgerDecision<FundsHeld, AlreadyHeld | HoldResolved | InsufficientBalance> => {
  if (state.holds.has(hold.holdId)) return refused({ code: 'already_held' })
  const resolved = resolutionOf(state, hold.holdId)
  if (resolved) return resolved
  if (micros(hold.amountMicros) <= 0) throw new RangeError(`a hold of ${hold.amountMicros} reserves nothing`)
  const taken = take(state, hold.amountMicros)
  if (!taken) return refused(insufficientBalance(state.availableMicros, hold.amountMicros))
  return moves({
    type: 'FundsHeld',
    data: { ...hold, availableAfterMicros: taken.afterMicros },
  })
}

const notOpen = (state: LedgerState, holdId: string): Refused<HoldResolved | UnknownHold> =>
  resolutionOf(state, holdId) ?? refused({ code: 'unknown_hold' })

/** Bills an open hold, whole. Each hold is resolved at most once, by a capture or a release. */
export const decideCapture = (
  state: LedgerState,
  { holdId }: { readonly holdId: string },
): LedgerDecision<HoldCaptured, HoldResolved | UnknownHold> => {
  const hold = state.holds.get(holdId)
  if (!hold) return notOpen(state, holdId)
  return moves({
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
  return moves({
    type: 'HoldReleased',
    data: { holdId, ...hold, availableAfterMicros: state.availableMicros + hold.amountMicros },
  })
}
