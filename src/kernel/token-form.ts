import { randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { sha256 } from './digest.ts'

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

/** @param prefix identifies the kind, e.g. `fbx_` (docs/reference/api.md, "Authentication") */
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
