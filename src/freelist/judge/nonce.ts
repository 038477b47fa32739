import { type KeyObject, timingSafeEqual } from 'node:crypto'
import { signed } from './keys.ts'

/** The judge answers a nonce this long after it was made, and this much before: clocks differ. */
const validMs = 120_000
const signatureLength = 22

const signatureOf = (key: KeyObject, head: string): string => signed(key, head).slice(0, signatureLength)

/**
 * A nonce for one request to the judge: when it was made, what was drawn, and a signature over both, in the characters of
 * base64url and dots.
 * @param drawn unpredictable base64url text
 */
export const makeNonce = (key: KeyObject, nowMs: number, drawn: string): string => {
  const head = `${nowMs.toString(36)}.${drawn}`
  return `${head}.${signatureOf(key, head)}`
}

/** Whether a nonce was made with this key, not long ago. */
export const isNonce = (key: KeyObject, nonce: string, nowMs: number): boolean => {
  const match = /^([0-9a-z]{6,10})\.[\w-]{8,32}\.([\w-]{22})$/.exec(nonce)
  if (match === null) return false
  const madeMs = Number.parseInt(match[1]!, 36)
  if (Math.abs(nowMs - madeMs) > validMs) return false
  const expected = signatureOf(key, nonce.slice(0, nonce.lastIndexOf('.')))
  return timingSafeEqual(Buffer.from(expected), Buffer.from(match[2]!))
}
