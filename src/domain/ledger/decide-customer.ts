import { refused } from '../../kernel/decider.ts'
import { assertSafe, centsToMicros } from '../../kernel/money.ts'
import type { KeyCap } from '../../kernel/scopes.ts'
import type { CustomerOrder } from '../shared/order-terms.ts'
import {
  type AlreadyApplied,
  type AlreadyDebited,
  decideSpending,
  type InsufficientBalance,
  insufficientBalance,
  type LedgerDecision,
  movementDecision,
  positive,
  refuseIfApplied,
  type SpendCapReached,
  shortfallOf,
} from './decide.ts'
import type {
  CustomerAdjusted,
  CustomerCharged,
  CustomerCredited,
  CustomerRefunded,
  DebtFields,
} from './events.ts'
import { capKeyOf, customerPurse, type LedgerState } from './fold.ts'
import { adjust, credit, movementKey, recallMovement, take } from './movements.ts'

/** The customer's credit does not cover the price. */
export type CustomerCreditInsufficient = {
  readonly code: 'customer_credit_insufficient'
} & ReturnType<typeof shortfallOf>

type CustomerCreditInput = Omit<
  CustomerCredited['data'],
  DebtFields | 'creditAfterMicros' | 'availableAfterMicros'
>
type CustomerAdjustmentInput = Omit<
  CustomerAdjusted['data'],
  DebtFields | 'creditAfterMicros' | 'availableAfterMicros'
>
type CustomerRefundInput = Omit<
  CustomerRefunded['data'],
  DebtFields | 'creditAfterMicros' | 'availableAfterMicros'
>

const notNegative = (amountMicros: number): number => {
  if (assertSafe(amountMicros, 'an amount') < 0) throw new RangeError(`an amount of ${amountMicros}`)
  return amountMicros
}

/**
 * Credits a payment at the reseller's gateway, once. It pays the customer's debt first.
 * @throws RangeError if the amount is not above 0
 */
export const decideCustomerCredit = (
  state: LedgerState,
  input: CustomerCreditInput,
): LedgerDecision<CustomerCredited, AlreadyApplied> => {
  const alreadyApplied = refuseIfApplied(state, movementKey.customerCredit(input))
  if (alreadyApplied) return alreadyApplied
  const purse = customerPurse(state, input.customerId)
  const { debtChangeMicros, afterMicros } = credit(purse, positive(input.amountMicros))
  const { availableMicros: availableAfterMicros } = state
  return movementDecision({
    type: 'CustomerCredited',
    data: { ...input, debtChangeMicros, creditAfterMicros: afterMicros, availableAfterMicros },
  })
}

/**
 * Moves a signed amount once. A customer's credit never goes below zero. The uncovered part of a chargeback becomes the
 * customer's debt to the reseller. Any other reason is refused with `insufficient_balance`.
 * @throws RangeError if the amount is 0
 */
export const decideCustomerAdjustment = (
  state: LedgerState,
  input: CustomerAdjustmentInput,
): LedgerDecision<CustomerAdjusted, AlreadyApplied | InsufficientBalance> => {
  const alreadyApplied = refuseIfApplied(state, movementKey.customerAdjustment(input))
  if (alreadyApplied) return alreadyApplied
  const purse = customerPurse(state, input.customerId)
  const absoluteMicros = positive(Math.abs(input.amountMicros))
  const adjusted = adjust(purse, input)
  if (!adjusted) return refused(insufficientBalance(purse, absoluteMicros))
  const { debtChangeMicros, afterMicros } = adjusted
  const { availableMicros: availableAfterMicros } = state
  return movementDecision({
    type: 'CustomerAdjusted',
    data: {
      ...input,
      debtChangeMicros,
      owedAfterMicros: purse.receivableMicros + debtChangeMicros,
      creditAfterMicros: afterMicros,
      availableAfterMicros,
    },
  })
}

/** The input of the charge of an order for a customer. */
type CustomerChargeInput = {
  readonly order: CustomerOrder
  /** The key's cap; null for none. It limits the cost, because the cost is what leaves the wallet. */
  readonly cap: KeyCap | null
}

/**
 * Pays an order for a customer once, from the customer's credit and the reseller's wallet at once. Refusals in their
 * order (docs/reference/api.md, "Resellers and finance"): `already_debited` with the existing debit,
 * `spend_cap_reached`, `insufficient_balance` (the reseller's wallet), `customer_credit_insufficient`.
 * @throws RangeError if an amount is negative
 */
export const decideCustomerCharge = (
  state: LedgerState,
  { order, cap }: CustomerChargeInput,
  nowMs: number,
): LedgerDecision<
  CustomerCharged,
  AlreadyDebited | SpendCapReached | InsufficientBalance | CustomerCreditInsufficient
> => {
  const debit = recallMovement(state, movementKey.debit(order.orderId))
  if (debit) return refused({ code: 'already_debited', ...debit })
  const amountMicros = notNegative(centsToMicros(order.amountCents))
  const costMicros = notNegative(centsToMicros(order.costCents))
  const spending = decideSpending(state, { keyId: capKeyOf(order), amountMicros: costMicros, cap }, nowMs)
  if ('outcome' in spending) return spending
  const wallet = take(state, costMicros)
  if (!wallet) return refused(insufficientBalance(state, costMicros))
  const { customerId } = order
  const purse = customerPurse(state, customerId)
  const customer = take(purse, amountMicros)
  if (!customer) return refused({ code: 'customer_credit_insufficient', ...shortfallOf(purse, amountMicros) })
  return movementDecision({
    type: 'CustomerCharged',
    data: {
      customerId,
      order,
      amountMicros,
      costMicros,
      ...spending,
      creditAfterMicros: customer.afterMicros,
      availableAfterMicros: wallet.afterMicros,
    },
  })
}

/**
 * Refunds an order for a customer once, to the customer's credit and the reseller's wallet. Each part pays the debt of
 * its side first.
 * @throws RangeError if an amount is negative, or both are 0
 */
export const decideCustomerRefund = (
  state: LedgerState,
  input: CustomerRefundInput,
): LedgerDecision<CustomerRefunded, AlreadyApplied> => {
  const alreadyApplied = refuseIfApplied(state, movementKey.customerRefund(input))
  if (alreadyApplied) return alreadyApplied
  const { customerId, amountMicros, costMicros } = input
  positive(notNegative(amountMicros) + notNegative(costMicros))
  const customer = credit(customerPurse(state, customerId), amountMicros)
  const wallet = credit(state, costMicros)
  return movementDecision({
    type: 'CustomerRefunded',
    data: {
      ...input,
      debtChangeMicros: customer.debtChangeMicros,
      walletDebtChangeMicros: wallet.debtChangeMicros,
      creditAfterMicros: customer.afterMicros,
      availableAfterMicros: wallet.afterMicros,
    },
  })
}
