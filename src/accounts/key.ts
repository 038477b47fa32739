import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

declare const brand: unique symbol

/** A whole API key, a secret: `fbx_`, 34 random base62 characters, 6 of checksum (decisions, "Names"). */
export type ApiKey = string & { readonly [brand]: 'ApiKey' }

const prefix = 'fbx_'
const randomLength = 34
const checksumLength = 6
const displayLength = 8
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const form = new RegExp(`^${prefix}[${base62}]{${randomLength + checksumLength}}$`)

/** CRC32 of the key's start as six base62 digits: 62^6 is above 2^32, so each checksum has one spelling. */
const checksum = (start: string): string => {
  let rest = crc32(start)
  let digits = ''
  for (let place = 0; place < checksumLength; place += 1) {
    digits = base62[rest % base62.length] + digits
    rest = Math.floor(rest / base62.length)
  }
  return digits
}

/** A fresh key of 202 random bits. `randomInt` draws without bias. */
export const generateKey = (): ApiKey => {
  const random = Array.from({ length: randomLength }, () => base62[randomInt(base62.length)]).join('')
  const start = prefix + random
  return (start + checksum(start)) as ApiKey
}

/** The text as a key, or null when its form or checksum is wrong: a typo costs no look-up. */
export const parseKey = (text: string): ApiKey | null => {
  if (!form.test(text)) return null
  const start = text.slice(0, -checksumLength)
  return checksum(start) === text.slice(-checksumLength) ? (text as ApiKey) : null
}

/** SHA-256, all that is kept of a key. A key has 202 random bits, so that no salt and no slow hash is needed. */
export const hashKey = (key: ApiKey): Buffer => createHash('sha256').update(key).digest()

/** The first 8 characters, for display. */
export const displayPrefixOf = (key: ApiKey): string => key.slice(0, displayLength)
