import { Map as ImmutableMap } from 'immutable'
import { emptyRemembered } from '../../platform/eventstore/remembered.ts'
import type { HeldFor } from './events.ts'
import type { Movements } from './movements.ts'
import { emptyPurse, type Purse } from './purse.ts'
import { emptySpend, type Spend } from './spend.ts'

export type OpenHold = HeldFor & { readonly amountMicros: number }

/** A wallet, which is a purse itself, and the purses of its customers (docs/architecture.md, "Invariants"). */
export type LedgerState = Purse & {
  /** The sum of the open holds. */
  readonly heldMicros: number
  readonly holds: ImmutableMap<string, OpenHold>
  /** What happened to the wallet and to its customers' credit. */
  readonly movements: Movements
  readonly spend: Spend
  /** By customer id: a reseller's customers, from their first money on. */
  readonly customers: ImmutableMap<string, Purse>
}

/** What a customer has with its reseller. */
export const customerPurse = ({ customers }: Pick<LedgerState, 'customers'>, customerId: string): Purse =>
  customers.get(customerId) ?? emptyPurse

export const emptyLedger: LedgerState = {
  ...emptyPurse,
  heldMicros: 0,
  holds: ImmutableMap(),
  movements: emptyRemembered(),
  spend: emptySpend(),
  customers: ImmutableMap(),
}
