import { hash, type KeyObject } from 'node:crypto'
import type { PlanId, ProxyId } from '../../kernel/ids.ts'
import { deriveKey, type MasterKey } from './keys.ts'

/** What a customer's proxy client sends. `username` is the base that targeting is appended to. */
export type Credential = { readonly username: string; readonly password: string }

export type Credentials = {
  /** The credential of a plan or a rental; the password changes with the generation, the username never does. */
  of(id: PlanId | ProxyId, generation: number): Credential
  /** What the link that rotates a mobile rental ends with: 32 of `[A-Za-z0-9]`. */
  rotationToken(id: ProxyId): string
}

const lowerAlphanumeric = 'abcdefghijklmnopqrstuvwxyz0123456789'
const alphanumeric = `ABCDEFGHIJKLMNOPQRSTUVWXYZ${lowerAlphanumeric}`
const usernameLength = 14
const passwordLength = 20
const tokenLength = 32

/** Digits made by one division: the alphabet's length to this power, times 2^16, must be a safe integer. */
const digitsAtOnce = 5

/**
 * The first digits of a 512-bit number in the alphabet's base: its bias is below 2^-390. The number is divided in parts
 * of 16 bits, five digits at once: a page shows 50 credentials, and BigInt took 20 times as long for each.
 */
const spell = (digest: string, alphabet: string, length: number): string => {
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

/** What SHA-512 takes at once; a key of HMAC is filled up to it. */
const blockBytes = 128

/**
 * HMAC-SHA512 (RFC 2104) of a text in ASCII under one key, as a character a byte. By two hashes at once, through strings: an object
 * of `createHmac` for each text, and a buffer for each digest, take more than twice as long.
 */
const hmacUnder = (key: KeyObject): ((text: string) => string) => {
  const padded = Buffer.alloc(blockBytes)
  key.export().copy(padded)
  const mixed = (byte: number): string => Buffer.from(padded.map((each) => each ^ byte)).toString('latin1')
  const [inner, outer] = [mixed(0x36), mixed(0x5c)]
  const digest = (bytes: string): string => hash('sha512', Buffer.from(bytes, 'latin1'), 'binary')
  return (text) => digest(outer + digest(inner + text))
}

/**
 * Credentials are derived, never stored: HMAC-SHA512 under keys that come from the master key. A
 * username is 14 of `[a-z0-9]`, without the `-` that separates targeting; a password 20 of `[A-Za-z0-9]`, safe in every
 * line format without escaping.
 */
export const createCredentials = (master: MasterKey): Credentials => {
  const usernames = hmacUnder(deriveKey(master, 'proxy usernames v1'))
  const passwords = hmacUnder(deriveKey(master, 'proxy passwords v1'))
  const rotations = hmacUnder(deriveKey(master, 'proxy rotation links v1'))
  return {
    rotationToken: (id) => spell(rotations(id), alphanumeric, tokenLength),
    of: (id, generation) => ({
      username: spell(usernames(id), lowerAlphanumeric, usernameLength),
      password: spell(passwords(JSON.stringify([id, generation])), alphanumeric, passwordLength),
    }),
  }
}
