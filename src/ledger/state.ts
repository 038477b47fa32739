import { Map as ImmutableMap } from 'immutable'
import { emptyRemembered, type Remembered } from './remembered.ts'
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

/** A wallet (design section 4). Amounts are micro-dollars and never negative. */
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
}

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
}
