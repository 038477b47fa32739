import { micros, orAbsent } from '../../kernel/event-fields.ts'

/**
 * The fields of an event that change a debt. Since 0.2.0 all events have `debtChangeMicros`: what is added to the debt,
 * negative if a debt is paid. Before, events had `receivableMicros`: in credits and refunds the paid part of the debt,
 * in adjustments the change of the debt. An event has exactly one of the two, and the field name shows which.
 */
export const debtFields = (debtText: string, oldMeaning: 'paid' | 'change') => ({
  debtChangeMicros: orAbsent(
    micros(
      'either sign',
      `the change of ${debtText}; negative: a payment. Absent only before 0.2.0, on events with \`receivableMicros\``,
    ),
  ),
  receivableMicros: orAbsent(
    oldMeaning === 'paid'
      ? micros('0 or more', `before 0.2.0 only: the paid part of ${debtText}; positive: a reduction`)
      : micros('either sign', `before 0.2.0 only: the change of ${debtText}; negative: a payment`),
  ),
})

/** The same for the wallet's debt, in a refund of a customer's order, which changes both debts. */
export const walletDebtFields = {
  walletDebtChangeMicros: orAbsent(
    micros(
      'either sign',
      "the change of the reseller's own debt at the service; negative: a payment of it. Absent only before 0.2.0, on events with `walletReceivableMicros`",
    ),
  ),
  walletReceivableMicros: orAbsent(
    micros('0 or more', "before 0.2.0 only: the paid part of the reseller's own debt; positive: a reduction"),
  ),
}

/** The fields that the ledger adds to its input. */
export type DebtFields =
  | 'debtChangeMicros'
  | 'receivableMicros'
  | 'walletDebtChangeMicros'
  | 'walletReceivableMicros'

/**
 * An event's change of a debt, from the new or the old field.
 * @param oldMicros the value of the old field, as a change
 * @throws if the event has both fields or none, because its change is then unknown
 */
const changeOf = (name: string, currentMicros: number | undefined, oldMicros: number | undefined): number => {
  if ((currentMicros === undefined) === (oldMicros === undefined))
    throw new Error(
      `a money event has ${currentMicros === undefined ? 'no' : 'both an old and a new'} ${name}`,
    )
  return (currentMicros ?? oldMicros) as number
}

const negated = (micros: number | undefined): number | undefined =>
  micros === undefined ? undefined : 0 - micros

type DebtChange = { readonly debtChangeMicros?: number; readonly receivableMicros?: number }

/** The change of the debt in a credit or a refund, micro-dollars. */
export const debtChangeOfCredit = ({ debtChangeMicros, receivableMicros }: DebtChange): number =>
  changeOf('debtChangeMicros', debtChangeMicros, negated(receivableMicros))

/** The change of the debt in an adjustment, micro-dollars. */
export const debtChangeOfAdjustment = ({ debtChangeMicros, receivableMicros }: DebtChange): number =>
  changeOf('debtChangeMicros', debtChangeMicros, receivableMicros)

/** The change of the wallet's debt in a refund of a customer's order, micro-dollars. */
export const walletDebtChangeOf = (data: {
  readonly walletDebtChangeMicros?: number
  readonly walletReceivableMicros?: number
}): number =>
  changeOf('walletDebtChangeMicros', data.walletDebtChangeMicros, negated(data.walletReceivableMicros))

/**
 * A balance and a debt, micro-dollars, neither of them negative: the wallet of an account, or the credit of a customer
 * with its reseller.
 */
export type Purse = {
  readonly availableMicros: number
  /** The debt after a chargeback that the balance did not cover. */
  readonly receivableMicros: number
}

export const emptyPurse: Purse = { availableMicros: 0, receivableMicros: 0 }

/** How a movement changes a purse. `debtChangeMicros` is added to the debt and is negative if a debt is paid. */
type PurseChange = { readonly debtChangeMicros: number; readonly afterMicros: number }

/** Adds money. It pays a debt first. */
export const credit = (purse: Purse, amountMicros: number): PurseChange => {
  const paidMicros = Math.min(purse.receivableMicros, amountMicros)
  return {
    debtChangeMicros: 0 - paidMicros,
    afterMicros: purse.availableMicros + amountMicros - paidMicros,
  }
}

/** Takes money out; null if there is not enough. */
export const take = (purse: Purse, amountMicros: number): { readonly afterMicros: number } | null =>
  amountMicros > purse.availableMicros ? null : { afterMicros: purse.availableMicros - amountMicros }

/**
 * Moves a signed amount. A positive amount pays a debt first. A chargeback has happened even if the balance does not
 * cover it, so the uncovered part becomes a debt. For any other reason the result is null if the balance does not cover
 * the amount.
 */
export const adjust = (
  purse: Purse,
  { amountMicros, reason }: { readonly amountMicros: number; readonly reason: string },
): PurseChange | null => {
  if (amountMicros > 0) return credit(purse, amountMicros)
  const uncoveredMicros = Math.max(0 - amountMicros - purse.availableMicros, 0)
  if (uncoveredMicros > 0 && reason !== 'chargeback') return null
  return {
    debtChangeMicros: uncoveredMicros,
    afterMicros: purse.availableMicros + amountMicros + uncoveredMicros,
  }
}
