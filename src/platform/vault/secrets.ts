import { randomBytes, randomInt } from 'node:crypto'
import { sha256 } from '../../kernel/digest.ts'

/** A new secret of 256 bits, safe in URLs and cookies. */
export const newSecret = (): string => randomBytes(32).toString('base64url')

const form = /^[A-Za-z0-9_-]{43}$/

/** The hash under which a secret is stored. Null for a text that cannot be a secret, so that it costs no look-up. */
export const hashOfSecret = (text: string | null): Buffer | null =>
  text !== null && form.test(text) ? sha256(text) : null

const digits = 8

/** A new code that a person types: eight digits. It is valid for few attempts and few minutes. */
export const newCode = (): string => String(randomInt(10 ** digits)).padStart(digits, '0')

/** The digits of a typed code, without spaces and dashes; null if it cannot be a code. */
export const codeIn = (text: string): string | null => {
  const typed = text.replaceAll(/[\s-]/g, '')
  return /^\d{8}$/.test(typed) ? typed : null
}

/** The displayed form of a code: `1234 5678`. */
export const shownCode = (code: string): string => `${code.slice(0, 4)} ${code.slice(4)}`

/*
 * Checks for secrets that a person made up. A random secret practically never fails these checks. A secret that
 * passes is not necessarily good.
 */

/** Of 32 random bytes about 30 differ. */
const minDistinctBytes = 16
const minDistinctLetters = 8

const isSequence = (codes: readonly number[]): boolean => {
  const steps = new Map<number, number>()
  for (let at = 1; at < codes.length; at += 1) {
    const step = (codes[at] ?? 0) - (codes[at - 1] ?? 0)
    steps.set(step, (steps.get(step) ?? 0) + 1)
  }
  return Math.max(...steps.values()) * 2 > codes.length
}

/** Why a key of 32 bytes is weak, e.g. `repeats itself`; null if no weakness is found. */
export const weakKey = (key: Buffer): string | null => {
  const bytes = [...key]
  if (new Set(bytes).size < minDistinctBytes) return 'repeats itself'
  if (isSequence(bytes)) return 'counts up or down'
  if (bytes.every((byte) => byte >= 0x20 && byte < 0x7f)) return 'is a typed text in base64'
  return null
}

const commonWords = /password|passwort|change.?me|secret|token|metrics|farebox|example|admin|qwerty|test/gi

/** As `weakKey`, for a text. */
export const weakText = (text: string): string | null => {
  const letters = [...text.replace(commonWords, '')]
  if (new Set(letters).size < minDistinctLetters) return 'repeats itself or is made of usual words'
  if (isSequence(letters.map((letter) => letter.codePointAt(0) ?? 0))) return 'counts up or down'
  return null
}
