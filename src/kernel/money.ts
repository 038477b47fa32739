const microsPerDollar = 1_000_000n
const microsPerCentBig = 10_000n

/** Whether an amount is whole cents; scrapes cost less than a cent. */
const isWholeCents = (micros: bigint): boolean => micros % microsPerCentBig === 0n

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

/** One amount with its currency, e.g. `1,000.00 usd`. */
export const amountIn = (micros: number, currency: string): string => {
  const amount = BigInt(micros)
  return `${amountWriter([amount])(amount)} ${currency}`
}

declare const brand: unique symbol

/** Integer micro-dollars: 1 cent is 10,000. Inside only. A safe integer reaches $9 billion. */
export type Micros = number & { readonly [brand]: 'Micros' }
/** Integer cents: the one unit of money outside. */
export type Cents = number & { readonly [brand]: 'Cents' }

export const microsPerCent = 10_000

/** Money is a safe integer or a bug: past 2^53 a number rounds in silence. */
export const assertSafe = (value: number, what: string): number => {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${what} is ${value}, not a safe integer`)
  return value
}

export const micros = (value: number): Micros => assertSafe(value, 'an amount in micro-dollars') as Micros
export const cents = (value: number): Cents => assertSafe(value, 'an amount in cents') as Cents

export const centsToMicros = (value: number): Micros => micros(cents(value) * microsPerCent)

/** The whole cents of an amount, rounded down: how a balance is shown. */
export const microsToCentsFloor = (value: number): Cents => cents(Math.floor(micros(value) / microsPerCent))

/** A factor that is no float: `numerator / denominator`. */
export type Factor = { readonly numerator: number; readonly denominator: number }
/** Discounts and shares: 10,000 is the whole. */
export const basisPoints = (value: number): Factor => ({ numerator: value, denominator: 10_000 })
/** Markups: 1,000,000 is the whole, so 1.30 is 1,300,000. */
export const millionths = (value: number): Factor => ({ numerator: value, denominator: 1_000_000 })

/** `numerator / denominator`, rounded half up to a whole number; neither may be negative. */
const divideHalfUp = (numerator: bigint, denominator: bigint): bigint => {
  if (numerator < 0n || denominator <= 0n)
    throw new RangeError(`cannot round ${numerator} / ${denominator}: only amounts from 0 on are rounded`)
  return (2n * numerator + denominator) / (2n * denominator)
}

/** The amount rounded half up to a cent; not for negative amounts. */
export const microsToCentsHalfUp = (value: number): Cents => multiplyToCents(value)

/**
 * The amount times all factors, computed exactly and rounded half up to a cent once (docs/http-api.md, "Catalogue and
 * prices").
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

/** `part / whole` of an amount, rounded half up to a cent: `shareOfCents(1_000, 1, 3)` is 333. */
export const shareOfCents = (amountCents: number, part: number, whole: number): Cents =>
  multiplyToCents(centsToMicros(amountCents), { numerator: part, denominator: whole })

/**
 * A decimal text as a whole number of its last decimal place: `parseDecimal('1.30', 6)` is 1,300,000. Null for anything
 * but digits with at most `decimals` of them after one point, or above the safe integers: nothing is rounded away.
 */
export const parseDecimal = (text: string, decimals: number): number | null => {
  const match = /^(\d{1,16})(?:\.(\d+))?$/.exec(text)
  if (!match) return null
  const [, whole = '', fraction = ''] = match
  if (fraction.length > decimals) return null
  const value = Number(BigInt(whole + fraction.padEnd(decimals, '0')))
  return Number.isSafeInteger(value) ? value : null
}

/** Dollars as text with at most six decimals, such as the scraper prices (`0.0030`), as micro-dollars; else null. */
export const parseDollarsToMicros = (text: string): Micros | null => parseDecimal(text, 6) as Micros | null

/** Micro-dollars as dollars with four decimals, such as `0.0030`: the unit of scraper prices, which have no finer part. */
export const dollarsOfMicros = (value: number): string => {
  const digits = String(micros(value) / 100).padStart(5, '0')
  return `${digits.slice(0, -4)}.${digits.slice(-4)}`
}

/** A percentage as text, `12.5`, as basis points (1250); null when it is finer than a basis point. */
export const parsePercentToBasisPoints = (text: string): number | null => parseDecimal(text, 2)

/** Cents as dollars for people to read, e.g. `-$12.05`. */
export const formatDollars = (value: number): string => {
  const digits = String(Math.abs(cents(value))).padStart(3, '0')
  return `${value < 0 ? '-' : ''}$${digits.slice(0, -2)}.${digits.slice(-2)}`
}
