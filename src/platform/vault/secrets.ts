import { randomBytes, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
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

const randomLength = 34
const checksumLength = 6
const displayLength = 8
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** CRC32 of the start as six base62 digits. 62^6 is above 2^32, so each checksum has one spelling. */
const checksum = (start: string): string => {
  let rest = crc32(start)
  let digits = ''
  for (let position = 0; position < checksumLength; position += 1) {
    digits = base62[rest % base62.length] + digits
    rest = Math.floor(rest / base62.length)
  }
  return digits
}

/** A kind of secret that is shown once and stored as a hash: a prefix, 34 random base62 characters, 6 of checksum. */
export type TokenForm<Token extends string> = {
  /** Generates a token with 202 random bits. `randomInt` has no bias. */
  generate(): Token
  /** The text as a token; null if its form or checksum is wrong, so that a typo costs no look-up. */
  parse(text: string): Token | null
  /** SHA-256, the only stored form. With 202 random bits it needs no salt and no slow hash. */
  hash(token: Token): Buffer
  /** The first 8 characters, for display. */
  displayPrefixOf(token: Token): string
}

/** @param prefix identifies the kind, e.g. `fbx_` (docs/http-api.md, "Names") */
export const tokenForm = <Token extends string>(prefix: string): TokenForm<Token> => {
  const form = new RegExp(`^${prefix}[${base62}]{${randomLength + checksumLength}}$`)
  return {
    generate: () => {
      const random = Array.from({ length: randomLength }, () => base62[randomInt(base62.length)]).join('')
      const start = prefix + random
      return (start + checksum(start)) as Token
    },
    parse: (text) => {
      if (!form.test(text)) return null
      const start = text.slice(0, -checksumLength)
      return checksum(start) === text.slice(-checksumLength) ? (text as Token) : null
    },
    hash: sha256,
    displayPrefixOf: (token) => token.slice(0, displayLength),
  }
}
