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

/** Puts money in. A debt is paid from it first: `receivableMicros` is that part. */
export const credit = (
  purse: Purse,
  amountMicros: number,
): { readonly receivableMicros: number; readonly afterMicros: number } => {
  const receivableMicros = Math.min(purse.receivableMicros, amountMicros)
  return { receivableMicros, afterMicros: purse.availableMicros + amountMicros - receivableMicros }
}

/** Takes money out; null when there is less. */
export const take = (purse: Purse, amountMicros: number): { readonly afterMicros: number } | null =>
  amountMicros > purse.availableMicros ? null : { afterMicros: purse.availableMicros - amountMicros }

/**
 * Moves a signed amount. Up, it pays a debt first. Down, a chargeback has happened whether or not the money is there, so
 * what is missing becomes a debt; null for any other reason when there is less.
 * @returns `receivableMicros` is added to the debt, so it is negative where a debt is paid
 */
export const adjust = (
  purse: Purse,
  { amountMicros, reason }: { readonly amountMicros: number; readonly reason: string },
): { readonly receivableMicros: number; readonly afterMicros: number } | null => {
  if (amountMicros > 0) {
    const { receivableMicros, afterMicros } = credit(purse, amountMicros)
    return { receivableMicros: 0 - receivableMicros, afterMicros }
  }
  const missing = Math.max(0 - amountMicros - purse.availableMicros, 0)
  if (missing > 0 && reason !== 'chargeback') return null
  return { receivableMicros: missing, afterMicros: purse.availableMicros + amountMicros + missing }
}
