import { createHmac, type KeyObject } from 'node:crypto'
import type { PlanId, ProxyId } from '../ids.ts'
import { deriveKey, type MasterKey } from './master-key.ts'

/** What a customer's proxy client sends. `username` is the base that targeting is appended to. */
export type Credential = { readonly username: string; readonly password: string }

export type Credentials = {
  /** The credential of a plan or a rental; the password changes with the generation, the username never does. */
  of(id: PlanId | ProxyId, generation: number): Credential
}

const lowerAlphanumeric = 'abcdefghijklmnopqrstuvwxyz0123456789'
const alphanumeric = `ABCDEFGHIJKLMNOPQRSTUVWXYZ${lowerAlphanumeric}`
const usernameLength = 14
const passwordLength = 20

/** The first digits of a 512-bit number in the alphabet's base: its bias is below 2^-390. */
const spell = (digest: Buffer, alphabet: string, length: number): string => {
  let rest = BigInt(`0x${digest.toString('hex')}`)
  const base = BigInt(alphabet.length)
  return Array.from({ length }, () => {
    const character = alphabet[Number(rest % base)]
    rest /= base
    return character
  }).join('')
}

/**
 * Credentials are derived, never stored (design section 5): HMAC-SHA512 under keys that come from the master key. A
 * username is 14 of `[a-z0-9]`, without the `-` that separates targeting; a password 20 of `[A-Za-z0-9]`, safe in every
 * line format without escaping.
 */
export const createCredentials = (master: MasterKey): Credentials => {
  const usernames = deriveKey(master, 'proxy usernames v1')
  const passwords = deriveKey(master, 'proxy passwords v1')
  const digest = (key: KeyObject, text: string) => createHmac('sha512', key).update(text).digest()
  return {
    of: (id, generation) => ({
      username: spell(digest(usernames, id), lowerAlphanumeric, usernameLength),
      password: spell(digest(passwords, JSON.stringify([id, generation])), alphanumeric, passwordLength),
    }),
  }
}
