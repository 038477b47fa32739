import { Map as ImmutableMap } from 'immutable'
import { emptyRemembered, type Remembered } from '../../platform/eventstore/remembered.ts'
import { emptySpend, type Spend } from './spend.ts'

export type OpenHold = { readonly amountMicros: number; readonly platform: string }
/** What a debit took and left; `revision` is its event's place in the ledger, which carries the whole order. */
export type RecordedDebit = {
  readonly amountMicros: number
  readonly availableAfterMicros: number
  readonly revision: number
}
export type Applied = { readonly amountMicros: number; readonly availableAfterMicros: number }
export type HoldResolution = 'captured' | 'released'

/** What a customer has with its reseller, micro-dollars, never negative. */
export type CustomerCredit = {
  readonly creditMicros: number
  /** What it owes after a chargeback that its credit could not bear. */
  readonly receivableMicros: number
}
export type CustomerApplied = { readonly amountMicros: number; readonly creditAfterMicros: number }

/** A wallet and the credit of its customers (design section 4). Amounts are micro-dollars and never negative. */
export type LedgerState = {
  readonly availableMicros: number
  /** The sum of the open holds. */
  readonly heldMicros: number
  /** What the account owes after a chargeback that its wallet could not bear. */
  readonly receivableMicros: number
  readonly holds: ImmutableMap<string, OpenHold>
  /** By `creditId`. */
  readonly credits: Remembered<Applied>
  /** By the operator's reference. */
  readonly adjustments: Remembered<Applied>
  /** By order id. */
  readonly debits: Remembered<RecordedDebit>
  readonly resolvedHolds: Remembered<HoldResolution>
  readonly spend: Spend
  /** By customer id: a reseller's customers, from their first money on. */
  readonly customers: ImmutableMap<string, CustomerCredit>
  /** By `customerMovementId`: payments, refunds and adjustments of customers. */
  readonly customerMovements: Remembered<CustomerApplied>
}

const noCredit: CustomerCredit = { creditMicros: 0, receivableMicros: 0 }

export const customerCreditOf = (
  { customers }: Pick<LedgerState, 'customers'>,
  customerId: string,
): CustomerCredit => customers.get(customerId) ?? noCredit

/** What makes a credit unique: two providers may use one payment id. */
export const creditId = (credit: {
  readonly source: string
  readonly gateway: string | null
  readonly reference: string
}): string => JSON.stringify([credit.source, credit.gateway, credit.reference])

export const emptyLedger: LedgerState = {
  availableMicros: 0,
  heldMicros: 0,
  receivableMicros: 0,
  holds: ImmutableMap(),
  credits: emptyRemembered(),
  adjustments: emptyRemembered(),
  debits: emptyRemembered(),
  resolvedHolds: emptyRemembered(),
  spend: emptySpend(),
  customers: ImmutableMap(),
  customerMovements: emptyRemembered(),
}
