import { parseDecimal } from '../../terms/money.ts'

/** Dollars as they were typed (`$1,000.50`), as whole cents; undefined for what is no amount or more than `most` cents. */
export const centsOf = (text: string, most: number): number | undefined => {
  const value = parseDecimal(text.replace(/^\$/, '').replaceAll(',', ''), 2)
  return value === null || value > most ? undefined : value
}
