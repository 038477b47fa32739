import { recall } from '../../platform/eventstore/remembered.ts'
import { assertSafe, centsToMicros, microsToCentsFloor } from '../../terms/money.ts'
import type { CustomerOrder } from '../../terms/order-details.ts'
import type {
  CustomerAdjusted,
  CustomerCharged,
  CustomerCredited,
  CustomerRefunded,
} from './customer-events.ts'
import { adjustmentId, paymentId, refundId } from './customer-movement.ts'
import {
  type AlreadyDebited,
  type InsufficientBalance,
  insufficientBalance,
  positive,
  type SpendCapReached,
  spendCapReached,
} from './decide.ts'
import { decided, type LedgerDecision, refused } from './decision.ts'
import { capKeyOf } from './spend.ts'
import { type CustomerApplied, customerCreditOf, type LedgerState } from './state.ts'

/** The movement landed before; these are its figures. */
export type CustomerAlreadyApplied = { readonly code: 'already_applied' } & CustomerApplied
/** The customer's credit does not cover the price; whole cents, rounded up. */
export type CustomerCreditInsufficient = {
  readonly code: 'customer_credit_insufficient'
  readonly creditCents: number
  readonly amountCents: number
  readonly shortfallCents: number
}

export type CustomerCreditInput = Omit<
  CustomerCredited['data'],
  'receivableMicros' | 'creditAfterMicros' | 'availableAfterMicros'
>
export type CustomerAdjustmentInput = Omit<
  CustomerAdjusted['data'],
  'receivableMicros' | 'creditAfterMicros' | 'availableAfterMicros'
>
export type CustomerRefundInput = Omit<
  CustomerRefunded['data'],
  'receivableMicros' | 'walletReceivableMicros' | 'creditAfterMicros' | 'availableAfterMicros'
>

const notNegative = (amountMicros: number): number => {
  if (assertSafe(amountMicros, 'an amount') < 0) throw new RangeError(`an amount of ${amountMicros}`)
  return amountMicros
}

const appliedBefore = (state: LedgerState, id: string) => {
  const applied = recall(state.customerMovements, id)
  return applied && refused<CustomerAlreadyApplied>({ code: 'already_applied', ...applied })
}

/** A payment at the reseller's gateway lands once. What the customer owes is paid from it first. */
export const decideCustomerCredit = (
  state: LedgerState,
  credit: CustomerCreditInput,
): LedgerDecision<CustomerCredited, CustomerAlreadyApplied> => {
  const before = appliedBefore(state, paymentId(credit))
  if (before) return before
  const { creditMicros, receivableMicros: owedMicros } = customerCreditOf(state, credit.customerId)
  const receivableMicros = Math.min(owedMicros, positive(credit.amountMicros))
  return decided({
    type: 'CustomerCredited',
    data: {
      ...credit,
      receivableMicros,
      creditAfterMicros: creditMicros + credit.amountMicros - receivableMicros,
      availableAfterMicros: state.availableMicros,
    },
  })
}

/**
 * Moves a signed amount once. A customer's credit never goes below zero: what a chargeback misses becomes the
 * customer's debt to the reseller; any other reason is refused with `insufficient_balance`.
 */
export const decideCustomerAdjustment = (
  state: LedgerState,
  adjustment: CustomerAdjustmentInput,
): LedgerDecision<CustomerAdjusted, CustomerAlreadyApplied | InsufficientBalance> => {
  const before = appliedBefore(state, adjustmentId(adjustment))
  if (before) return before
  const { reason, amountMicros, customerId } = adjustment
  const { creditMicros, receivableMicros: owedMicros } = customerCreditOf(state, customerId)
  const size = positive(Math.abs(amountMicros))
  const missing = Math.max(size - creditMicros, 0)
  const down = amountMicros < 0
  if (down && missing > 0 && reason !== 'chargeback') return refused(insufficientBalance(creditMicros, size))
  const receivableMicros = down ? missing : 0 - Math.min(owedMicros, size)
  return decided({
    type: 'CustomerAdjusted',
    data: {
      ...adjustment,
      receivableMicros,
      creditAfterMicros: creditMicros + amountMicros + receivableMicros,
      availableAfterMicros: state.availableMicros,
    },
  })
}

/** What an order for a customer takes on both sides, whole cents. */
export type CustomerChargeInput = {
  readonly order: CustomerOrder
  /** The key's cap in any 24 hours; null for none. It counts the cost: that is what leaves the wallet. */
  readonly capCents: number | null
}

/**
 * Pays an order for a customer once, on both sides at once. Refusals in their order (decisions, "Resellers and
 * finance"): `already_debited` with what stands, `spend_cap_reached`, `insufficient_balance` (the reseller's wallet),
 * `customer_credit_insufficient`.
 */
export const decideCustomerCharge = (
  state: LedgerState,
  { order, capCents }: CustomerChargeInput,
  nowMs: number,
): LedgerDecision<
  CustomerCharged,
  AlreadyDebited | SpendCapReached | InsufficientBalance | CustomerCreditInsufficient
> => {
  const debit = recall(state.debits, order.orderId)
  if (debit) return refused({ code: 'already_debited', ...debit })
  const amountMicros = notNegative(centsToMicros(order.amountCents))
  const costMicros = notNegative(centsToMicros(order.costCents))
  const capped = spendCapReached(state, { keyId: capKeyOf(order), amountMicros: costMicros, capCents }, nowMs)
  if (capped) return refused(capped)
  if (costMicros > state.availableMicros)
    return refused(insufficientBalance(state.availableMicros, costMicros))
  const { customerId } = order
  const { creditMicros } = customerCreditOf(state, customerId)
  if (amountMicros > creditMicros) {
    const creditCents = microsToCentsFloor(creditMicros)
    const { amountCents } = order
    const shortfallCents = amountCents - creditCents
    return refused({ code: 'customer_credit_insufficient', creditCents, amountCents, shortfallCents })
  }
  return decided({
    type: 'CustomerCharged',
    data: {
      customerId,
      order,
      amountMicros,
      costMicros,
      creditAfterMicros: creditMicros - amountMicros,
      availableAfterMicros: state.availableMicros - costMicros,
    },
  })
}

/** A refund of an order for a customer lands once, on both sides; each side's debt is paid from its part first. */
export const decideCustomerRefund = (
  state: LedgerState,
  refund: CustomerRefundInput,
): LedgerDecision<CustomerRefunded, CustomerAlreadyApplied> => {
  const before = appliedBefore(state, refundId(refund))
  if (before) return before
  const { customerId, amountMicros, costMicros } = refund
  positive(notNegative(amountMicros) + notNegative(costMicros))
  const { creditMicros, receivableMicros: owedMicros } = customerCreditOf(state, customerId)
  const receivableMicros = Math.min(owedMicros, amountMicros)
  const walletReceivableMicros = Math.min(state.receivableMicros, costMicros)
  return decided({
    type: 'CustomerRefunded',
    data: {
      ...refund,
      receivableMicros,
      walletReceivableMicros,
      creditAfterMicros: creditMicros + amountMicros - receivableMicros,
      availableAfterMicros: state.availableMicros + costMicros - walletReceivableMicros,
    },
  })
}
