const microsPerDollar = 1_000_000n

/** Micro-dollars as dollars with six decimals, exact: `-15.003000`. */
export const dollarText = (micros: number | bigint): string => {
  const value = BigInt(micros)
  const size = value < 0n ? -value : value
  const decimals = String(size % microsPerDollar).padStart(6, '0')
  return `${value < 0n ? '-' : ''}${size / microsPerDollar}.${decimals}`
}
