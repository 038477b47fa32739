import { hash, type KeyObject } from 'node:crypto'
import type { PlanId, ProxyId } from '../../kernel/ids.ts'
import { deriveKey, type MasterKey } from './keys.ts'

/** The login of a customer's proxy client. Targeting is appended to `username`. */
export type Credential = { readonly username: string; readonly password: string }

export type Credentials = {
  /** The credential of a plan or a rental. The password changes with the generation; the username never changes. */
  of(id: PlanId | ProxyId, generation: number): Credential
  /** The last part of the link that rotates a mobile rental: 32 of `[A-Za-z0-9]`. */
  rotationToken(id: ProxyId): string
}

const lowerAlphanumeric = 'abcdefghijklmnopqrstuvwxyz0123456789'
const alphanumeric = `ABCDEFGHIJKLMNOPQRSTUVWXYZ${lowerAlphanumeric}`
const usernameLength = 14
const passwordLength = 20
const tokenLength = 32

/** Digits per division: the alphabet's length to this power, times 2^16, must be a safe integer. */
const digitsAtOnce = 5

/**
 * The first digits of a 512-bit number in the alphabet's base. The bias is below 2^-390. The number is divided in
 * parts of 16 bits, for five digits at once: a page shows 50 credentials, and BigInt took 20 times as long for each.
 */
const toDigits = (digest: string, alphabet: string, length: number): string => {
  const base = alphabet.length
  const divisor = base ** digitsAtOnce
  const parts: number[] = []
  for (let at = 0; at < digest.length; at += 2)
    parts.push((digest.charCodeAt(at) << 8) | digest.charCodeAt(at + 1))
  let text = ''
  while (text.length < length) {
    let rest = 0
    for (let index = 0; index < parts.length; index += 1) {
      const value = rest * 0x1_0000 + parts[index]!
      const quotient = Math.floor(value / divisor)
      parts[index] = quotient
      rest = value - quotient * divisor
    }
    for (let n = 0; n < digitsAtOnce; n += 1) {
      text += alphabet[rest % base]
      rest = Math.floor(rest / base)
    }
  }
  return text.slice(0, length)
}

/** The block size of SHA-512. HMAC pads its key to this size. */
const blockBytes = 128

/**
 * HMAC-SHA512 (RFC 2104) of an ASCII text under one key, as one character per byte. It uses two one-shot hashes on
 * strings: a `createHmac` object for each text and a buffer for each digest take more than twice as long.
 */
const hmacUnder = (key: KeyObject): ((text: string) => string) => {
  const padded = Buffer.alloc(blockBytes)
  key.export().copy(padded)
  const xorPadded = (byte: number): string =>
    Buffer.from(padded.map((each) => each ^ byte)).toString('latin1')
  const [inner, outer] = [xorPadded(0x36), xorPadded(0x5c)]
  const digest = (bytes: string): string => hash('sha512', Buffer.from(bytes, 'latin1'), 'binary')
  return (text) => digest(outer + digest(inner + text))
}

/**
 * Credentials are derived and never stored: HMAC-SHA512 under keys that are derived from the master key. A username
 * is 14 of `[a-z0-9]`, without the `-` that separates targeting. A password is 20 of `[A-Za-z0-9]`, which need no
 * escaping in any line format.
 */
export const createCredentials = (master: MasterKey): Credentials => {
  const usernames = hmacUnder(deriveKey(master, 'proxy usernames v1'))
  const passwords = hmacUnder(deriveKey(master, 'proxy passwords v1'))
  const rotations = hmacUnder(deriveKey(master, 'proxy rotation links v1'))
  return {
    rotationToken: (id) => toDigits(rotations(id), alphanumeric, tokenLength),
    of: (id, generation) => ({
      username: toDigits(usernames(id), lowerAlphanumeric, usernameLength),
      password: toDigits(passwords(JSON.stringify([id, generation])), alphanumeric, passwordLength),
    }),
  }
}
