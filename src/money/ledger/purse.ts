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
