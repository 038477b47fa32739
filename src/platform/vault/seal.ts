import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { deriveKey, type MasterKey } from './master-key.ts'

/** The bytes were not sealed under this key and context, or were changed since. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken'
}

export type Vault = {
  /** Encrypts; the same bytes look different each time. `context` says whose they are, e.g. `webhook-secret whs_…`. */
  seal(plain: Uint8Array, context: string): Buffer
  /** @throws SealBroken under another key or context, or when a byte was changed */
  open(sealed: Uint8Array, context: string): Buffer
}

const version = 1
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + nonceBytes
const algorithm = 'aes-256-gcm'

/**
 * AES-256-GCM under a key derived from the master key. Layout: version 1, nonce (12 bytes), ciphertext, tag (16 bytes).
 * The context is authenticated, not stored: a sealed value that is moved to another row does not open there. Random
 * nonces bear 2^32 values under one key (NIST SP 800-38D, 8.3), far above what a vault holds.
 */
export const createVault = (master: MasterKey): Vault => {
  const key = deriveKey(master, 'seal v1')
  return {
    seal(plain, context) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(
        Buffer.from(context),
      )
      return Buffer.concat([
        Buffer.of(version),
        nonce,
        cipher.update(plain),
        cipher.final(),
        cipher.getAuthTag(),
      ])
    },
    open(sealed, context) {
      const bytes = Buffer.from(sealed)
      if (bytes.length < headBytes + tagBytes || bytes[0] !== version)
        throw new SealBroken(`these bytes are not a sealed value of version ${version}`)
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(1, headBytes), {
        authTagLength: tagBytes,
      })
        .setAAD(Buffer.from(context))
        .setAuthTag(bytes.subarray(-tagBytes))
      const plain = decipher.update(bytes.subarray(headBytes, -tagBytes))
      try {
        return Buffer.concat([plain, decipher.final()])
      } catch (cause) {
        throw new SealBroken(
          `the sealed value of ${context} does not open: another key or context, or changed bytes`,
          {
            cause,
          },
        )
      }
    },
  }
}
