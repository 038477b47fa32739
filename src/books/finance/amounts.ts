const microsPerDollar = 1_000_000n
const microsPerCent = 10_000n

/** Whether an amount is whole cents; scrapes cost less than a cent. */
const isWholeCents = (micros: bigint): boolean => micros % microsPerCent === 0n

/** Micro-dollars as dollars with a point and all six decimals: exact, for programs. E.g. `-12.500000`. */
export const plainDollars = (micros: bigint): string => {
  const size = micros < 0n ? -micros : micros
  const fraction = String(size % microsPerDollar).padStart(6, '0')
  return `${micros < 0n ? '-' : ''}${size / microsPerDollar}.${fraction}`
}

/**
 * Writes amounts for people, all with the same decimals: two, or six where one of them is no whole cent.
 * E.g. `1,000.00`; nothing is rounded.
 */
export const amountWriter = (all: Iterable<bigint>): ((micros: bigint) => string) => {
  let decimals = 2
  for (const micros of all) if (!isWholeCents(micros)) decimals = 6
  return (micros) => {
    const [whole = '', fraction = ''] = plainDollars(micros < 0n ? -micros : micros).split('.')
    return `${micros < 0n ? '-' : ''}${BigInt(whole).toLocaleString('en-US')}.${fraction.slice(0, decimals)}`
  }
}
