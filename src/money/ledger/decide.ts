import { recall } from '../../platform/eventstore/remembered.ts'
import { assertSafe, centsToMicros, microsToCentsFloor } from '../../terms/money.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import { decided, type LedgerDecision, refused } from './decision.ts'
import type { WalletAdjusted, WalletCredited, WalletDebited } from './events.ts'
import { capKeyOf, spentMicros } from './spend.ts'
import { type Applied, creditId, type LedgerState, type RecordedDebit } from './state.ts'

/** The movement landed before; these are its figures. */
export type AlreadyApplied = { readonly code: 'already_applied' } & Applied
/** Whole cents; `balanceCents` is the floor of what is available (decisions, "Orders": 402 bodies). */
export type InsufficientBalance = {
  readonly code: 'insufficient_balance'
  readonly balanceCents: number
  readonly amountCents: number
  readonly shortfallCents: number
}
export type SpendCapReached = {
  readonly code: 'spend_cap_reached'
  readonly capCents: number
  readonly spentCents: number
  readonly amountCents: number
}
/** The order's debit stands already: whoever decides goes on with the order instead of paying it again. */
export type AlreadyDebited = { readonly code: 'already_debited' } & RecordedDebit
export type DebitRefusal = AlreadyDebited | SpendCapReached | InsufficientBalance

export type CreditInput = Omit<WalletCredited['data'], 'receivableMicros' | 'availableAfterMicros'>
export type AdjustmentInput = Omit<WalletAdjusted['data'], 'receivableMicros' | 'availableAfterMicros'>

export const positive = (amountMicros: number): number => {
  if (assertSafe(amountMicros, 'an amount') <= 0)
    throw new RangeError(`an amount of ${amountMicros} moves nothing`)
  return amountMicros
}

/** Why the wallet cannot pay, in whole cents; an amount that is no whole number of cents is rounded up. */
export const insufficientBalance = (availableMicros: number, amountMicros: number): InsufficientBalance => {
  const balanceCents = microsToCentsFloor(availableMicros)
  const amountCents = -microsToCentsFloor(-amountMicros)
  return {
    code: 'insufficient_balance',
    balanceCents,
    amountCents,
    shortfallCents: Math.max(amountCents - balanceCents, 0),
  }
}

/**
 * A deposit, an operator's credit or a refund lands once. What the account owes is paid from it first.
 * A credit older than seven days is not remembered here: the streams of design section 5 guard it, and refunds that
 * are finished so late are looked up (src/market/orders/refund-evidence.ts).
 */
export const decideCredit = (
  state: LedgerState,
  credit: CreditInput,
): LedgerDecision<WalletCredited, AlreadyApplied> => {
  const applied = recall(state.credits, creditId(credit))
  if (applied) return refused({ code: 'already_applied', ...applied })
  const receivableMicros = Math.min(state.receivableMicros, positive(credit.amountMicros))
  return decided({
    type: 'WalletCredited',
    data: {
      ...credit,
      receivableMicros,
      availableAfterMicros: state.availableMicros + credit.amountMicros - receivableMicros,
    },
  })
}

/**
 * Moves a signed amount once. Up, it pays what the account owes first. Down, the wallet never goes below zero: a
 * chargeback has happened whether or not the money is there, so what is missing becomes a debt; any other reason is
 * refused with `insufficient_balance`.
 */
export const decideAdjustment = (
  state: LedgerState,
  adjustment: AdjustmentInput,
): LedgerDecision<WalletAdjusted, AlreadyApplied | InsufficientBalance> => {
  const { reference, reason, amountMicros } = adjustment
  const applied = recall(state.adjustments, reference)
  if (applied) return refused({ code: 'already_applied', ...applied })
  const size = positive(Math.abs(amountMicros))
  const missing = Math.max(size - state.availableMicros, 0)
  const down = amountMicros < 0
  if (down && missing > 0 && reason !== 'chargeback')
    return refused(insufficientBalance(state.availableMicros, size))
  const receivableMicros = down ? missing : 0 - Math.min(state.receivableMicros, size)
  return decided({
    type: 'WalletAdjusted',
    data: {
      ...adjustment,
      receivableMicros,
      availableAfterMicros: state.availableMicros + amountMicros + receivableMicros,
    },
  })
}

/** Why the key may not spend this much now; null when it may, also when it reaches its cap exactly. */
export const spendCapReached = (
  state: LedgerState,
  spending: {
    readonly keyId: string | null
    readonly amountMicros: number
    readonly capCents: number | null
  },
  nowMs: number,
): SpendCapReached | null => {
  const { keyId, amountMicros, capCents } = spending
  if (capCents === null || keyId === null) return null
  const spent = spentMicros(state.spend, keyId, nowMs)
  if (spent + amountMicros <= centsToMicros(capCents)) return null
  return {
    code: 'spend_cap_reached',
    capCents,
    spentCents: microsToCentsFloor(spent),
    amountCents: microsToCentsFloor(amountMicros),
  }
}

export type DebitInput = {
  readonly order: OrderDetails
  /** The key's cap in any 24 hours; null for none. */
  readonly capCents: number | null
}

/**
 * Pays an order once. Refusals in their order (decisions, "Everywhere"): `already_debited` with what stands,
 * `spend_cap_reached` (reaching the cap exactly passes), `insufficient_balance`.
 */
export const decideDebit = (
  state: LedgerState,
  { order, capCents }: DebitInput,
  nowMs: number,
): LedgerDecision<WalletDebited, DebitRefusal> => {
  const debit = recall(state.debits, order.orderId)
  if (debit) return refused({ code: 'already_debited', ...debit })
  const amountMicros = positive(centsToMicros(order.amountCents))
  const capped = spendCapReached(state, { keyId: capKeyOf(order), amountMicros, capCents }, nowMs)
  if (capped) return refused(capped)
  if (amountMicros > state.availableMicros)
    return refused(insufficientBalance(state.availableMicros, amountMicros))
  return decided({
    type: 'WalletDebited',
    data: { order, amountMicros, availableAfterMicros: state.availableMicros - amountMicros },
  })
}
