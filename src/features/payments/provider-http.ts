import { createHmac, timingSafeEqual } from 'node:crypto'
import type { z } from 'zod'
import type { InvoiceReport, UncreditedPayment } from '../../domain/payments/payments.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import { faultKind } from '../../platform/outgoing/target.ts'
import { GatewayUnavailable, UnreadableAnswer } from './payment-port.ts'

/** A decimal number without rounding: `digits / 10^scale`. */
export type Decimal = { readonly digits: bigint; readonly scale: number }

const maxScale = 400

/** Parses texts such as `25.00`, `1e-7` or `-3` exactly; null for any other text. */
export const parseDecimalText = (text: string): Decimal | null => {
  const match = /^(-?)(\d{1,60})(?:\.(\d{1,60}))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text)
  if (!match) return null
  const [, sign, integerDigits = '', fraction = '', exponent = '0'] = match
  const scale = fraction.length - Number(exponent)
  if (Math.abs(scale) > maxScale) return null
  const digits = BigInt(integerDigits + fraction) * (sign === '-' ? -1n : 1n)
  return scale >= 0 ? { digits, scale } : { digits: digits * 10n ** BigInt(-scale), scale: 0 }
}

/** The exact sum as a decimal text, e.g. `12.5`; `0` for an empty list. */
export const sumText = (amounts: readonly Decimal[]): string => {
  const scale = Math.max(0, ...amounts.map((amount) => amount.scale))
  const digits = amounts.reduce(
    (sum, amount) => sum + amount.digits * 10n ** BigInt(scale - amount.scale),
    0n,
  )
  if (scale === 0) return String(digits)
  const text = String(digits < 0n ? -digits : digits).padStart(scale + 1, '0')
  return `${digits < 0n ? '-' : ''}${text.slice(0, -scale)}.${text.slice(-scale)}`
}

/** An amount of the payer's coin, for people; null for a text that is not a number. */
export const coinsText = (amount: string): string | null =>
  parseDecimalText(amount) ? `${amount} coins` : null

/** A status of a provider for logs and operators. */
export const statusText = (status: string): string => (/^\w{1,40}$/.test(status) ? status : 'unreadable')

/** The field of a report, if there is an unknown status. */
export const unknownOnly = (
  unknownStatuses: readonly UncreditedPayment[],
): Pick<InvoiceReport, 'unknownStatuses'> => (unknownStatuses.length > 0 ? { unknownStatuses } : {})

const safeNumber = (value: bigint): number => {
  const number = Number(value)
  // Without the figure: it comes from the provider and must not be logged.
  if (value < 0n || !Number.isSafeInteger(number))
    throw new UnreadableAnswer('a payment of more than can be credited, or of less than nothing')
  return number
}

/**
 * `a × b` dollars as micro-dollars, rounded down.
 * @throws UnreadableAnswer for less than 0 and for more than 2^53 - 1 micro-dollars
 */
export const productMicros = (a: Decimal, b: Decimal): number =>
  safeNumber((a.digits * b.digits * 1_000_000n) / 10n ** BigInt(a.scale + b.scale))

/**
 * `price × part / whole` dollars as micro-dollars, rounded down; 0 when the whole is 0.
 * @throws UnreadableAnswer for less than 0 and for more than 2^53 - 1 micro-dollars
 */
export const shareMicros = (price: Decimal, part: Decimal, whole: Decimal): number => {
  if (whole.digits === 0n) return 0
  const numerator = price.digits * part.digits * 10n ** BigInt(whole.scale) * 1_000_000n
  return safeNumber(numerator / (whole.digits * 10n ** BigInt(price.scale + part.scale)))
}

/** Parses JSON with every number as its original text, so that money is never a float. */
export const parseExactJson = (text: string): unknown =>
  JSON.parse(text, (_key, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' ? (context?.source ?? String(value)) : value,
  )

/** Calls a provider's JSON API; null for 404. Numbers are returned as texts. */
type JsonCall = <Shape extends z.ZodType>(
  method: 'GET' | 'POST',
  path: string,
  shape: Shape,
  options?: { readonly body?: object; readonly headers?: Readonly<Record<string, string>> },
) => Promise<z.output<Shape> | null>

/** An upper bound of the number of values: each but the first follows a comma or an opening bracket. */
const valuesAtMost = (text: string): number => {
  let values = 1
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === ',' || char === '[' || char === '{') values += 1
  }
  return values
}

/**
 * Creates the client of a JSON API. Errors have the path and the status, never the request or the answer.
 * @param maxValues more than any real answer has. Parsing blocks the process, and its time grows with the number of
 * values: two megabytes of them, from a reseller's own server, took ten seconds.
 */
export const jsonApi = (
  name: string,
  send: Send,
  baseUrl: string,
  headers: Readonly<Record<string, string>>,
  maxValues: number,
): JsonCall => {
  const fail = (path: string, reason: string): GatewayUnavailable =>
    new GatewayUnavailable(`${name} ${path.split('?', 1)[0]}: ${reason}`)
  return async (method, path, shape, options = {}) => {
    const { body, headers: extraHeaders } = options
    let status: number
    let text: string
    try {
      const response = await send(`${baseUrl}${path}`, {
        method,
        headers: {
          accept: 'application/json',
          ...headers,
          ...extraHeaders,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      status = response.status
      text = await response.text()
    } catch (error) {
      throw fail(path, faultKind(error))
    }
    if (status === 404) return null
    if (status >= 300) throw fail(path, `status ${status}`)
    if (valuesAtMost(text) > maxValues) throw fail(path, `an answer of more than ${maxValues} values`)
    const json = exactJsonOf(text)
    // For example a page of a proxy: the next answer may be another one.
    if (json === undefined) throw fail(path, 'an answer that is not JSON')
    const answer = shape.safeParse(json)
    if (answer.success) return answer.data
    const field = answer.error.issues[0]?.path.join('.')
    const problem = `an answer that its documentation does not have${field ? `, at ${field}` : ''}`
    throw new UnreadableAnswer(fail(path, problem).message)
  }
}

const exactJsonOf = (text: string): unknown => {
  try {
    return parseExactJson(text)
  } catch {
    return undefined
  }
}

/** A callback's body; null if it is not JSON. */
export const jsonOf = (raw: Buffer): unknown => {
  try {
    return JSON.parse(raw.toString('utf8'))
  } catch {
    return null
  }
}

type Algorithm = 'sha256' | 'sha512'

const forms: Readonly<Record<Algorithm, RegExp>> = {
  sha256: /^[0-9a-fA-F]{64}$/,
  sha512: /^[0-9a-fA-F]{128}$/,
}

/** Whether the text has the form of a digest. Checked before any work for an unauthenticated client. */
export const isHexDigest = (algorithm: Algorithm, hex: string): boolean => forms[algorithm].test(hex)

/** Whether the text is the hex HMAC of the bytes. Compares in constant time. */
export const isHexHmac = (
  algorithm: Algorithm,
  secret: string,
  bytes: Buffer | string,
  hex: string,
): boolean => {
  if (!isHexDigest(algorithm, hex)) return false
  const expected = createHmac(algorithm, secret).update(bytes).digest()
  return timingSafeEqual(expected, Buffer.from(hex, 'hex'))
}
