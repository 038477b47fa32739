const microsPerDollar = 1_000_000n
const microsPerCentBig = 10_000n

/** Whether an amount is a whole number of cents. Scrapes cost less than a cent. */
const isWholeCents = (micros: bigint): boolean => micros % microsPerCentBig === 0n

/** Micro-dollars as exact dollars with all six decimals, for programs, e.g. `-12.500000`. */
export const plainDollars = (micros: bigint): string => {
  const size = micros < 0n ? -micros : micros
  const fraction = String(size % microsPerDollar).padStart(6, '0')
  return `${micros < 0n ? '-' : ''}${size / microsPerDollar}.${fraction}`
}

/**
 * Returns a function that formats these amounts (micro-dollars) for people, e.g. `1,000.00`. All have two decimals, or
 * six if one of them is not a whole number of cents. Nothing is rounded.
 */
export const amountWriter = (all: Iterable<bigint>): ((micros: bigint) => string) => {
  let decimals = 2
  for (const micros of all) if (!isWholeCents(micros)) decimals = 6
  return (micros) => {
    const [whole = '', fraction = ''] = plainDollars(micros < 0n ? -micros : micros).split('.')
    return `${micros < 0n ? '-' : ''}${BigInt(whole).toLocaleString('en-US')}.${fraction.slice(0, decimals)}`
  }
}

/** An amount in micro-dollars with its currency, e.g. `1,000.00 usd`. */
export const amountIn = (micros: number, currency: string): string => {
  const amount = BigInt(micros)
  return `${amountWriter([amount])(amount)} ${currency}`
}

declare const brand: unique symbol

/** Integer micro-dollars, for internal use only: 1 cent is 10,000. A safe integer reaches $9 billion. */
export type Micros = number & { readonly [brand]: 'Micros' }
/** Integer cents: the only unit of money in external interfaces. */
export type Cents = number & { readonly [brand]: 'Cents' }

export const microsPerCent = 10_000

/**
 * Returns the value if it is a safe integer: beyond 2^53 numbers are rounded silently.
 * @throws RangeError otherwise: a bug
 */
export const assertSafe = (value: number, label: string): number => {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${label} is ${value}, not a safe integer`)
  return value
}

export const micros = (value: number): Micros => assertSafe(value, 'an amount in micro-dollars') as Micros
export const cents = (value: number): Cents => assertSafe(value, 'an amount in cents') as Cents

export const centsToMicros = (value: number): Micros => micros(cents(value) * microsPerCent)

/** An amount in whole cents, rounded down, as balances are displayed. */
export const microsToCentsFloor = (value: number): Cents => cents(Math.floor(micros(value) / microsPerCent))

/** An amount in whole cents, rounded up, as debts are displayed. */
export const microsToCentsCeil = (value: number): Cents => cents(0 - microsToCentsFloor(0 - value))

/** An exact factor: `numerator / denominator`. */
export type Factor = { readonly numerator: number; readonly denominator: number }
/** For discounts and shares: 10,000 is 100 %. */
export const basisPoints = (value: number): Factor => ({ numerator: value, denominator: 10_000 })
/** For markups: 1,000,000 is a factor of 1, so 1.30 is 1,300,000. */
export const millionths = (value: number): Factor => ({ numerator: value, denominator: 1_000_000 })

/**
 * `numerator / denominator`, rounded half up to a whole number.
 * @throws RangeError for a negative numerator, or a denominator that is not above 0
 */
const divideHalfUp = (numerator: bigint, denominator: bigint): bigint => {
  if (numerator < 0n || denominator <= 0n)
    throw new RangeError(`cannot round ${numerator} / ${denominator}: only amounts from 0 on are rounded`)
  return (2n * numerator + denominator) / (2n * denominator)
}

/**
 * The amount rounded half up to whole cents.
 * @throws RangeError for a negative amount
 */
export const microsToCentsHalfUp = (value: number): Cents => multiplyToCents(value)

/**
 * The amount times all factors, computed exactly and rounded once, half up to whole cents (docs/reference/api.md,
 * "Catalogue and prices").
 * @throws RangeError for a negative amount or result
 * @example multiplyToCents(centsToMicros(999), basisPoints(10_000 - 1_250)) // 874: 12.5 % off $9.99
 */
export const multiplyToCents = (amountMicros: number, ...factors: readonly Factor[]): Cents => {
  let numerator = BigInt(micros(amountMicros))
  let denominator = BigInt(microsPerCent)
  for (const factor of factors) {
    numerator *= BigInt(assertSafe(factor.numerator, 'a numerator'))
    denominator *= BigInt(assertSafe(factor.denominator, 'a denominator'))
  }
  return assertSafe(Number(divideHalfUp(numerator, denominator)), 'a computed amount') as Cents
}

/** `part / whole` of an amount, rounded half up to whole cents: `shareOfCents(1_000, 1, 3)` is 333. */
export const shareOfCents = (amountCents: number, part: number, whole: number): Cents =>
  multiplyToCents(centsToMicros(amountCents), { numerator: part, denominator: whole })

/**
 * Parses a decimal text into a whole number of units of the last decimal place: `parseDecimal('1.30', 6)` is 1,300,000.
 * Null unless the text is digits with an optional point and at most `decimals` digits after it, and null for a result
 * above the safe integers. Nothing is rounded.
 */
export const parseDecimal = (text: string, decimals: number): number | null => {
  const match = /^(\d{1,16})(?:\.(\d+))?$/.exec(text)
  if (!match) return null
  const [, whole = '', fraction = ''] = match
  if (fraction.length > decimals) return null
  const value = Number(BigInt(whole + fraction.padEnd(decimals, '0')))
  return Number.isSafeInteger(value) ? value : null
}

/** Parses dollars with at most six decimals, such as scraper prices (`0.0030`), into micro-dollars; else null. */
export const parseDollarsToMicros = (text: string): Micros | null => parseDecimal(text, 6) as Micros | null

/** Micro-dollars as dollars with four decimals, such as `0.0030`: the smallest unit of scraper prices. */
export const dollarsOfMicros = (value: number): string => {
  const digits = String(micros(value) / 100).padStart(5, '0')
  return `${digits.slice(0, -4)}.${digits.slice(-4)}`
}

/** Parses a percentage such as `12.5` into basis points (1250); null if it is finer than a basis point. */
export const parsePercentToBasisPoints = (text: string): number | null => parseDecimal(text, 2)

/** Cents as dollars for people, e.g. `-$12.05`. */
export const formatDollars = (value: number): string => {
  const digits = String(Math.abs(cents(value))).padStart(3, '0')
  return `${value < 0 ? '-' : ''}$${digits.slice(0, -2)}.${digits.slice(-2)}`
}
