import { randomBytes, randomInt } from 'node:crypto'
import { sha256 } from '../../kernel/hash.ts'

/** A fresh secret of 256 bits, safe in URLs and cookies. */
export const newSecret = (): string => randomBytes(32).toString('base64url')

const form = /^[A-Za-z0-9_-]{43}$/

/** The hash under which a secret is kept, or null for a text that cannot be one: it costs no look-up. */
export const hashOfSecret = (text: string | null): Buffer | null =>
  text !== null && form.test(text) ? sha256(text) : null

const digits = 8

/** A fresh code that a person types: eight digits. It is good for few attempts and few minutes. */
export const newCode = (): string => String(randomInt(10 ** digits)).padStart(digits, '0')

/** The digits of a typed code, spaces and dashes left out, or null when it cannot be one. */
export const codeIn = (text: string): string | null => {
  const typed = text.replaceAll(/[\s-]/g, '')
  return /^\d{8}$/.test(typed) ? typed : null
}

/** A code as it is shown: `1234 5678`. */
export const shownCode = (code: string): string => `${code.slice(0, 4)} ${code.slice(4)}`
