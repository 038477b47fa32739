import { GatewayUnavailable } from './port.ts'

/** A decimal number as it was written: `digits / 10^scale`. */
export type Decimal = { readonly digits: bigint; readonly scale: number }

const maxScale = 400

/** `25.00`, `1e-7` or `-3`; null for any other text. Nothing is rounded. */
export const parseDecimalText = (text: string): Decimal | null => {
  const match = /^(-?)(\d{1,60})(?:\.(\d{1,60}))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text)
  if (!match) return null
  const [, sign, whole = '', fraction = '', exponent = '0'] = match
  const scale = fraction.length - Number(exponent)
  if (Math.abs(scale) > maxScale) return null
  const digits = BigInt(whole + fraction) * (sign === '-' ? -1n : 1n)
  return scale >= 0 ? { digits, scale } : { digits: digits * 10n ** BigInt(-scale), scale: 0 }
}

const safe = (value: bigint): number => {
  const number = Number(value)
  // The figure itself is the provider's and belongs in no log.
  if (value < 0n || !Number.isSafeInteger(number))
    throw new GatewayUnavailable('a payment of more than can be credited, or of less than nothing')
  return number
}

/**
 * `a × b` dollars as micro-dollars, rounded down.
 * @throws GatewayUnavailable for less than 0 and for more than 2^53 - 1 micro-dollars
 */
export const productMicros = (a: Decimal, b: Decimal): number =>
  safe((a.digits * b.digits * 1_000_000n) / 10n ** BigInt(a.scale + b.scale))

/**
 * `price × part / whole` dollars as micro-dollars, rounded down; 0 when the whole is 0.
 * @throws GatewayUnavailable for less than 0 and for more than 2^53 - 1 micro-dollars
 */
export const shareMicros = (price: Decimal, part: Decimal, whole: Decimal): number => {
  if (whole.digits === 0n) return 0
  const up = price.digits * part.digits * 10n ** BigInt(whole.scale) * 1_000_000n
  return safe(up / (whole.digits * 10n ** BigInt(price.scale + part.scale)))
}

/** JSON with every number as the text that was sent: money is never a float. */
export const parseExactJson = (text: string): unknown =>
  JSON.parse(text, (_key, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' ? (context?.source ?? String(value)) : value,
  )
