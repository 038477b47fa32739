import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import { accountRef } from '../../market/accounts/fold.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { readState } from '../../platform/eventstore/commands/handle.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { centsToMicros } from '../../terms/money.ts'
import type { AdjustmentReason, CustomerAdjustmentReason } from './adjustment-reason.ts'
import { decideManual, type ManualAnswer, manualStream } from './decide-manual.ts'
import { ledgerRef } from './fold.ts'
import type { ManualMovement } from './manual-events.ts'
import { manualFold } from './manual-fold.ts'
import type { Purse } from './purse.ts'
import { customerPurse, type LedgerState } from './state.ts'

export type ManualCredit = {
  readonly accountId: AccountId
  /** Whole cents above 0. */
  readonly amountCents: number
  /** What it is for. The same reference moves the wallet once for ever. */
  readonly reference: string
}

export type ManualAdjustment = ManualCredit & {
  readonly reason: AdjustmentReason
  /** The gateway that a chargeback takes the money from, else null. */
  readonly gateway: string | null
  /** The deposit whose payment went back; left out where an operator adjusts. */
  readonly depositId?: string
}

export type ManualCustomerAdjustment = ManualCredit & {
  readonly customerId: CustomerId
  readonly reason: CustomerAdjustmentReason
  /** The reseller's gateway that a chargeback takes the money from, else null. */
  readonly gateway: string | null
  /** As of a wallet. */
  readonly depositId?: string
}

/** Moves wallets and the credit of resellers' customers by hand. */
export type Wallets = {
  /** Refusals: `unknown_account`, `already_applied`, `invalid_amount` (more than a wallet holds), `unconfirmed`. */
  credit(credit: ManualCredit, cause: Cause): Promise<ManualAnswer>
  /**
   * `amountCents` is signed. A chargeback blocks the account. Refusals: `unknown_account`, `already_applied`,
   * `insufficient_balance` (never for a chargeback), `invalid_amount`, `unconfirmed`.
   */
  adjust(adjustment: ManualAdjustment, cause: Cause): Promise<ManualAnswer>
  /**
   * `amountCents` is signed, `accountId` the reseller's. Refusals: `unknown_account`, `not_a_reseller`,
   * `already_applied`, `insufficient_balance` (never for a chargeback), `invalid_amount`, `unconfirmed`.
   */
  adjustCustomer(adjustment: ManualCustomerAdjustment, cause: Cause): Promise<ManualAnswer>
  /** Finishes a recorded movement that a crash left without its end; nothing happens to one that has it. */
  resume(movement: ManualMovement, cause: Cause): Promise<ManualAnswer>
  /** What each customer of the reseller has and owes, as the log has it now. */
  customerCredit(reseller: AccountId, cause: Cause): Promise<(customerId: string) => Purse>
  /** Available micro-dollars and open holds as the log has them now. */
  read(
    accountId: AccountId,
    cause: Cause,
  ): Promise<{
    readonly availableMicros: number
    readonly heldMicros: number
    readonly receivableMicros: number
  }>
}

const movementNames = {
  credit: 'credit-wallet',
  adjustment: 'adjust-wallet',
  customer: 'adjust-customer',
} as const satisfies Record<ManualMovement['kind'], string>

export const createWallets = ({ runner }: { readonly runner: CommandRunner }): Wallets => {
  const move = async (movement: ManualMovement, cause: Cause): Promise<ManualAnswer> => {
    const accountId = movement.accountId as AccountId
    const { answer } = await runner.run({
      name: movementNames[movement.kind],
      streams: {
        account: accountRef(accountId),
        movement: { stream: manualStream(movement), fold: manualFold },
        ledger: ledgerRef(accountId),
      },
      decide: (states) => decideManual(states, movement),
      actor: cause.actor,
      correlationId: cause.correlationId,
      account: accountId,
    })
    return answer
  }
  const stateOf = (accountId: AccountId, cause: Cause): Promise<LedgerState> =>
    readState(runner, { ...cause, name: 'read-wallet' }, ledgerRef(accountId))
  return {
    credit: ({ accountId, amountCents, reference }, cause) =>
      move({ kind: 'credit', accountId, reference, amountMicros: centsToMicros(amountCents) }, cause),
    adjust: ({ amountCents, ...adjustment }, cause) =>
      move({ kind: 'adjustment', ...adjustment, amountMicros: centsToMicros(amountCents) }, cause),
    adjustCustomer: ({ amountCents, ...adjustment }, cause) =>
      move({ kind: 'customer', ...adjustment, amountMicros: centsToMicros(amountCents) }, cause),
    resume: move,
    customerCredit: async (reseller, cause) => {
      const ledger = await stateOf(reseller, cause)
      return (customerId) => customerPurse(ledger, customerId)
    },
    async read(accountId, cause) {
      const answer = await stateOf(accountId, cause)
      const { availableMicros, heldMicros, receivableMicros } = answer
      return { availableMicros, heldMicros, receivableMicros }
    },
  }
}
