import { micros, orAbsent } from '../../kernel/event-fields.ts'

/**
 * How an event changes a debt. Today's events say what is added to it, whatever they are: `debtChangeMicros`, below zero
 * where a debt is paid. Before, `receivableMicros` was what was paid of it in credits and refunds, and the change of it in
 * adjustments. An event has one of the two, and its name tells which.
 */
export const debtFields = (whose: string, was: 'paid' | 'change') => ({
  debtChangeMicros: orAbsent(
    micros(
      'either sign',
      `what is added to ${whose}; below zero: what was paid of it. Absent only before 0.2.0, on events with \`receivableMicros\``,
    ),
  ),
  receivableMicros: orAbsent(
    was === 'paid'
      ? micros('0 or more', `before 0.2.0 only: what was paid of ${whose}; above zero lowers it`)
      : micros(
          'either sign',
          `before 0.2.0 only: what is added to ${whose}; below zero: what was paid of it`,
        ),
  ),
})

/** The same of a wallet's debt, where a refund of a customer's order moves both. */
export const walletDebtFields = {
  walletDebtChangeMicros: orAbsent(
    micros(
      'either sign',
      "what is added to the reseller's own debt at the service; below zero: what was paid of it. Absent only before 0.2.0, on events with `walletReceivableMicros`",
    ),
  ),
  walletReceivableMicros: orAbsent(
    micros('0 or more', "before 0.2.0 only: what was paid of the reseller's own debt; above zero lowers it"),
  ),
}

/** The fields that the ledger adds to what it is asked to book. */
export type DebtFields =
  | 'debtChangeMicros'
  | 'receivableMicros'
  | 'walletDebtChangeMicros'
  | 'walletReceivableMicros'

/**
 * An event's change of a debt, today's or an old one's.
 * @param before what an old event says, as a change
 * @throws when it has both or neither: then nobody knows what it moves
 */
const changeOf = (name: string, today: number | undefined, before: number | undefined): number => {
  if ((today === undefined) === (before === undefined))
    throw new Error(`a money event has ${today === undefined ? 'no' : 'both an old and a new'} ${name}`)
  return (today ?? before) as number
}

const negated = (micros: number | undefined): number | undefined =>
  micros === undefined ? undefined : 0 - micros

type Old = { readonly debtChangeMicros?: number; readonly receivableMicros?: number }

/** Of a credit or a refund. */
export const debtChangeOfCredit = ({ debtChangeMicros, receivableMicros }: Old): number =>
  changeOf('debtChangeMicros', debtChangeMicros, negated(receivableMicros))

/** Of an adjustment. */
export const debtChangeOfAdjustment = ({ debtChangeMicros, receivableMicros }: Old): number =>
  changeOf('debtChangeMicros', debtChangeMicros, receivableMicros)

/** Of the wallet, where a customer's order is refunded. */
export const walletDebtChangeOf = (data: {
  readonly walletDebtChangeMicros?: number
  readonly walletReceivableMicros?: number
}): number =>
  changeOf('walletDebtChangeMicros', data.walletDebtChangeMicros, negated(data.walletReceivableMicros))

/**
 * What somebody has and what it owes, micro-dollars, neither of them negative: the wallet of an account, or the credit of
 * a customer with its reseller.
 */
export type Purse = {
  readonly availableMicros: number
  /** Owed after a chargeback that the money at hand could not bear. */
  readonly receivableMicros: number
}

export const emptyPurse: Purse = { availableMicros: 0, receivableMicros: 0 }

/** What a movement does to a purse. `debtChangeMicros` is added to the debt: below zero where a debt is paid. */
type Moved = { readonly debtChangeMicros: number; readonly afterMicros: number }

/** Puts money in. A debt is paid from it first. */
export const credit = (purse: Purse, amountMicros: number): Moved => {
  const paidMicros = Math.min(purse.receivableMicros, amountMicros)
  return {
    debtChangeMicros: 0 - paidMicros,
    afterMicros: purse.availableMicros + amountMicros - paidMicros,
  }
}

/** Takes money out; null when there is less. */
export const take = (purse: Purse, amountMicros: number): { readonly afterMicros: number } | null =>
  amountMicros > purse.availableMicros ? null : { afterMicros: purse.availableMicros - amountMicros }

/**
 * Moves a signed amount. Up, it pays a debt first. Down, a chargeback has happened whether or not the money is there, so
 * what is missing becomes a debt; null for any other reason when there is less.
 */
export const adjust = (
  purse: Purse,
  { amountMicros, reason }: { readonly amountMicros: number; readonly reason: string },
): Moved | null => {
  if (amountMicros > 0) return credit(purse, amountMicros)
  const missing = Math.max(0 - amountMicros - purse.availableMicros, 0)
  if (missing > 0 && reason !== 'chargeback') return null
  return { debtChangeMicros: missing, afterMicros: purse.availableMicros + amountMicros + missing }
}
