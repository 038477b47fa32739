/** Micro-dollars as dollars with four decimals: `0.0030`. Prices of scrapers have no finer part. */
export const priceText = (micros: number): string => {
  const digits = String(micros / 100).padStart(5, '0')
  return `${digits.slice(0, -4)}.${digits.slice(-4)}`
}
