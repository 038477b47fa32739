import { type Decision, decided, type Refused, refused } from '../../kernel/decider.ts'
import {
  assertSafe,
  centsToMicros,
  micros,
  microsToCentsCeil,
  microsToCentsFloor,
} from '../../kernel/money.ts'
import type { KeyCap } from '../../kernel/scopes.ts'
import type { OrderDetails } from '../shared/order-terms.ts'
import type {
  DebtFields,
  FundsHeld,
  HoldCaptured,
  HoldReleased,
  LedgerEvent,
  WalletAdjusted,
  WalletCredited,
  WalletDebited,
} from './events.ts'
import type { LedgerState } from './fold.ts'
import { capKeyOf, cappedSpendMicros } from './fold.ts'
import {
  adjust,
  credit,
  type Movement,
  movementKey,
  type Purse,
  reachedCapLevel,
  recallMovement,
  take,
} from './movements.ts'

/** The result of a decision on a wallet: one event, or a refusal. */
export type LedgerDecision<Event extends LedgerEvent, Refusal> = Decision<
  Event,
  Refusal,
  MovementResult<Event>
>

type MovementResult<Event extends LedgerEvent> = {
  readonly events: readonly [Event]
  /** What the event leaves in the wallet, less open holds, micro-dollars. */
  readonly availableAfterMicros: number
}

export const movementDecision = <Event extends LedgerEvent>(event: Event): LedgerDecision<Event, never> => ({
  ...decided(event),
  events: [event],
  availableAfterMicros: event.data.availableAfterMicros,
})

/** The movement was applied before. These are its figures. */
export type AlreadyApplied = { readonly code: 'already_applied' } & Movement
/** What a purse lacks for an amount, whole cents. */
type Shortfall = {
  readonly balanceCents: number
  readonly amountCents: number
  /** What must be paid in. It includes the debt, because payments pay a debt first. */
  readonly shortfallCents: number
  /** The debt in the shortfall; absent if there is none. */
  readonly owedCents?: number
}
/** `balanceCents` is the available amount, rounded down (docs/reference/api.md, "Errors"). */
export type InsufficientBalance = { readonly code: 'insufficient_balance' } & Shortfall & {
    /** For a hold, whose amount may be a part of a cent: what must be paid in, exactly. */
    readonly shortfallMicros?: number
  }
export type SpendCapReached = {
  readonly code: 'spend_cap_reached'
  readonly capCents: number
  readonly spentCents: number
  readonly amountCents: number
}
/** The order's debit exists. The caller goes on with the order and does not pay it again. */
export type AlreadyDebited = { readonly code: 'already_debited' } & Movement
export type DebitRefusal = AlreadyDebited | SpendCapReached | InsufficientBalance

type CreditInput = Omit<WalletCredited['data'], DebtFields | 'availableAfterMicros'>
type AdjustmentInput = Omit<WalletAdjusted['data'], DebtFields | 'availableAfterMicros'>

export const positive = (amountMicros: number): number => {
  if (assertSafe(amountMicros, 'an amount') <= 0)
    throw new RangeError(`an amount of ${amountMicros} moves nothing`)
  return amountMicros
}

/** Why a purse cannot pay an amount above its balance. A partial cent is rounded up. */
export const shortfallOf = (purse: Purse, amountMicros: number): Shortfall => {
  const balanceCents = microsToCentsFloor(purse.availableMicros)
  const amountCents = microsToCentsCeil(amountMicros)
  const owedCents = microsToCentsCeil(purse.receivableMicros)
  return {
    balanceCents,
    amountCents,
    shortfallCents: amountCents + owedCents - balanceCents,
    ...(owedCents > 0 && { owedCents }),
  }
}

export const insufficientBalance = (purse: Purse, amountMicros: number): InsufficientBalance => ({
  code: 'insufficient_balance',
  ...shortfallOf(purse, amountMicros),
})

/** The refusal of a movement that was applied before; null if the ledger state does not have it. */
export const refuseIfApplied = (state: LedgerState, key: string): Refused<AlreadyApplied> | null => {
  const movement = recallMovement(state, key)
  return movement ? refused({ code: 'already_applied', ...movement }) : null
}

/**
 * Credits a deposit, an operator's credit or a refund, once. It pays the account's debt first.
 *
 * The ledger state has credits of the last seven days only. Older deposits and manual credits are refused by their own
 * streams, and a refund that is finished so late is searched for in the ledger (src/features/orders/refund-order.ts).
 * @throws RangeError if the amount is not above 0
 */
export const decideCredit = (
  state: LedgerState,
  input: CreditInput,
): LedgerDecision<WalletCredited, AlreadyApplied> => {
  const alreadyApplied = refuseIfApplied(state, movementKey.credit(input))
  if (alreadyApplied) return alreadyApplied
  const { debtChangeMicros, afterMicros } = credit(state, positive(input.amountMicros))
  return movementDecision({
    type: 'WalletCredited',
    data: { ...input, debtChangeMicros, availableAfterMicros: afterMicros },
  })
}

/**
 * Moves a signed amount once. A positive amount pays the account's debt first. A negative amount never takes the wallet
 * below zero: the uncovered part of a chargeback becomes a debt, and any other reason is refused with
 * `insufficient_balance`.
 * @throws RangeError if the amount is 0
 */
export const decideAdjustment = (
  state: LedgerState,
  input: AdjustmentInput,
): LedgerDecision<WalletAdjusted, AlreadyApplied | InsufficientBalance> => {
  const alreadyApplied = refuseIfApplied(state, movementKey.adjustment(input))
  if (alreadyApplied) return alreadyApplied
  const absoluteMicros = positive(Math.abs(input.amountMicros))
  const adjusted = adjust(state, input)
  if (!adjusted) return refused(insufficientBalance(state, absoluteMicros))
  const { debtChangeMicros, afterMicros } = adjusted
  return movementDecision({
    type: 'WalletAdjusted',
    data: {
      ...input,
      debtChangeMicros,
      owedAfterMicros: state.receivableMicros + debtChangeMicros,
      availableAfterMicros: afterMicros,
    },
  })
}

/**
 * Whether an order or a call fits the key's cap. It may reach the cap exactly. Refusal: `spend_cap_reached`. Otherwise
 * the fields of the event that report how much of the cap is spent.
 */
export const decideSpending = (
  state: LedgerState,
  spending: {
    readonly keyId: string | null
    readonly amountMicros: number
    readonly cap: KeyCap | null
  },
  nowMs: number,
): Refused<SpendCapReached> | Pick<WalletDebited['data'], 'keyCap'> => {
  const { keyId, amountMicros, cap } = spending
  if (cap === null || keyId === null) return {}
  const { cents: capCents, covers } = cap
  const before = cappedSpendMicros(state, keyId, covers, nowMs)
  const keyCap = { capCents, covers, spentMicros: before + amountMicros }
  if (keyCap.spentMicros > centsToMicros(capCents))
    return refused({
      code: 'spend_cap_reached',
      capCents,
      spentCents: microsToCentsCeil(before),
      amountCents: microsToCentsCeil(amountMicros),
    })
  return reachedCapLevel(keyCap) !== null ? { keyCap } : {}
}

type DebitInput = {
  readonly order: OrderDetails
  /** The key's cap; null for none. */
  readonly cap: KeyCap | null
}

/**
 * Pays an order once. Refusals in their order (docs/reference/api.md, "Order of checks"): `already_debited` with the
 * existing debit, `spend_cap_reached` (reaching the cap exactly is allowed), `insufficient_balance`.
 * @throws RangeError if the amount is not above 0
 */
export const decideDebit = (
  state: LedgerState,
  { order, cap }: DebitInput,
  nowMs: number,
): LedgerDecision<WalletDebited, DebitRefusal> => {
  const debit = recallMovement(state, movementKey.debit(order.orderId))
  if (debit) return refused({ code: 'already_debited', ...debit })
  const amountMicros = positive(centsToMicros(order.amountCents))
  const spending = decideSpending(state, { keyId: capKeyOf(order), amountMicros, cap }, nowMs)
  if ('outcome' in spending) return spending
  const debited = take(state, amountMicros)
  if (!debited) return refused(insufficientBalance(state, amountMicros))
  return movementDecision({
    type: 'WalletDebited',
    data: { order, amountMicros, ...spending, availableAfterMicros: debited.afterMicros },
  })
}

type HoldInput = Omit<FundsHeld['data'], 'availableAfterMicros' | 'keyCap'>
/** The hold exists and is open. */
type AlreadyHeld = { readonly code: 'already_held' }
/** The hold was resolved in this way, which is final. */
type HoldResolved = { readonly code: 'hold_resolved'; readonly resolution: 'captured' | 'released' }
type UnknownHold = { readonly code: 'unknown_hold' }

const resolutionOf = (state: LedgerState, holdId: string): Refused<HoldResolved> | null => {
  if (recallMovement(state, movementKey.capture(holdId)))
    return refused({ code: 'hold_resolved', resolution: 'captured' })
  if (recallMovement(state, movementKey.release(holdId)))
    return refused({ code: 'hold_resolved', resolution: 'released' })
  return null
}

/**
 * Reserves micro-dollars for a call that is billed if it succeeds, or for a refund of a deposit. A hold id can be used
 * once. Refusals: `already_held`, `hold_resolved`, `spend_cap_reached`, `insufficient_balance`.
 * @param limit the cap of the key, if it covers the hold
 * @throws RangeError if the amount is not above 0
 */
export const decideHold = (
  state: LedgerState,
  hold: HoldInput,
  limit: { readonly cap: KeyCap; readonly nowMs: number } | null,
): LedgerDecision<FundsHeld, AlreadyHeld | HoldResolved | SpendCapReached | InsufficientBalance> => {
  if (state.holds.has(hold.holdId)) return refused({ code: 'already_held' })
  const resolved = resolutionOf(state, hold.holdId)
  if (resolved) return resolved
  if (micros(hold.amountMicros) <= 0) throw new RangeError(`a hold of ${hold.amountMicros} reserves nothing`)
  const { capKeyId: keyId = null, amountMicros } = hold
  const spending =
    limit === null ? {} : decideSpending(state, { keyId, amountMicros, cap: limit.cap }, limit.nowMs)
  if ('outcome' in spending) return spending
  const debited = take(state, amountMicros)
  if (!debited)
    return refused({
      ...insufficientBalance(state, amountMicros),
      shortfallMicros: amountMicros + state.receivableMicros - state.availableMicros,
    })
  return movementDecision({
    type: 'FundsHeld',
    data: { ...hold, ...spending, availableAfterMicros: debited.afterMicros },
  })
}

const notOpenRefusal = (state: LedgerState, holdId: string): Refused<HoldResolved | UnknownHold> =>
  resolutionOf(state, holdId) ?? refused({ code: 'unknown_hold' })

/** Bills the full amount of an open hold. A capture or a release resolves each hold at most once. */
export const decideCapture = (
  state: LedgerState,
  { holdId }: { readonly holdId: string },
): LedgerDecision<HoldCaptured, HoldResolved | UnknownHold> => {
  const open = state.holds.get(holdId)
  // A hold for a refund has no platform: it is never revenue.
  if (open?.platform === undefined) return notOpenRefusal(state, holdId)
  const { depositId: _, platform, ...hold } = open
  return movementDecision({
    type: 'HoldCaptured',
    data: { holdId, platform, ...hold, availableAfterMicros: state.availableMicros },
  })
}

/** Returns the full amount of an open hold to the wallet. It pays the account's debt first. */
export const decideRelease = (
  state: LedgerState,
  { holdId }: { readonly holdId: string },
): LedgerDecision<HoldReleased, HoldResolved | UnknownHold> => {
  const hold = state.holds.get(holdId)
  if (!hold) return notOpenRefusal(state, holdId)
  const { debtChangeMicros, afterMicros } = credit(state, hold.amountMicros)
  const debtChange = debtChangeMicros < 0 ? { debtChangeMicros } : {}
  return movementDecision({
    type: 'HoldReleased',
    data: { holdId, ...hold, ...debtChange, availableAfterMicros: afterMicros },
  })
}
