import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { equalSecrets, sha256 } from '../../kernel/digest.ts'
import { deriveKey, type MasterKey } from './keys.ts'

/** The subject of a commitment in an event: a value in the vault, its id and its owner. No text contains a space. */
export type CommitmentSubject = {
  /** E.g. `api-key`. It never changes, because it is part of the digest. */
  readonly what: string
  readonly id: string
  /** The owner, e.g. an account. */
  readonly owner: string
}

const saltBytes = 32

/** A new salt for each value. It is stored in the value's row and erased with it. */
export const freshSalt = (): Buffer => randomBytes(saltBytes)

/**
 * SHA-256, hex, over a line that names the subject, and the salted value. A salted value begins with `freshSalt`, or
 * is encrypted (src/platform/vault/seal.ts), with a nonce that serves as a salt. After the row is erased, the digest
 * does not reveal the value, even to an attacker who can guess it.
 */
export const commitmentOf = ({ what, id, owner }: CommitmentSubject, salted: Uint8Array): string =>
  sha256(Buffer.concat([Buffer.from(`farebox commitment v1 ${what} ${id} ${owner}\n`), salted])).toString(
    'hex',
  )

/**
 * The same digest, computed by Postgres; null if a part is null.
 * @param sql expressions: three texts, and the salted bytes
 */
export const commitmentSql = (sql: CommitmentSubject & { readonly salted: string }): string =>
  `encode(sha256(convert_to('farebox commitment v1 ' || ${sql.what} || ' ' || ${sql.id} || ' ' || ${sql.owner} || chr(10), 'UTF8') || ${sql.salted}), 'hex')`

/** A salt and the columns of a row, separated by line feeds: the input of a commitment. */
export const saltedText = (salt: Uint8Array, ...parts: readonly (string | Uint8Array)[]): Buffer =>
  Buffer.concat([
    salt,
    ...parts.flatMap((part, at) => (at === 0 ? [Buffer.from(part)] : [Buffer.from('\n'), Buffer.from(part)])),
  ])

/** The columns of a short-lived row of the vault (minutes or hours). */
export type RowFields = readonly (string | null)[]

/** Keyed digests (HMAC-SHA256) of rows. A writer to the database without the master key cannot create a valid one. */
export type RowSigner = {
  sign(fields: RowFields): Buffer
  /** False if a column was changed, or the row was written without the key. */
  isSigned(fields: RowFields, signature: Uint8Array | null): boolean
}

/** @param purpose the kind of row and its version, e.g. `console session v1` */
export const createRowSigner = (master: MasterKey, purpose: string): RowSigner => {
  const key = deriveKey(master, `row ${purpose}`)
  const sign = (fields: RowFields): Buffer =>
    createHmac('sha256', key).update(JSON.stringify(fields)).digest()
  return {
    sign,
    isSigned: (fields, signature) => signature !== null && equalSecrets(signature, sign(fields)),
  }
}

/** The bytes were not encrypted under this key and context, or were changed afterwards. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken'
}

/** The keys are compared at each start, so the row is wrong. */
const brokenRow = (context: string, cause?: unknown): SealBroken =>
  new SealBroken(`the row of ${context} was changed: its value was not sealed for it`, { cause })

export type Vault = {
  /** Encrypts. Equal inputs have different outputs. `context` identifies the value, e.g. `webhook-secret whs_…`. */
  seal(plaintext: Uint8Array, context: string): Buffer
  /** @throws SealBroken under another key or context, or if a byte was changed */
  open(sealed: Uint8Array, context: string): Buffer
}

const version = 1
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + nonceBytes
const algorithm = 'aes-256-gcm'

/**
 * AES-256-GCM under a key derived from the master key. Layout: version 1, nonce (12 bytes), ciphertext, tag (16
 * bytes). The context is authenticated and not stored: a value that is moved to another row cannot be decrypted
 * there. Random nonces allow 2^32 values under one key (NIST SP 800-38D, 8.3), far more than a vault contains.
 */
export const createVault = (master: MasterKey): Vault => {
  const key = deriveKey(master, 'seal v1')
  return {
    seal(plaintext, context) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(
        Buffer.from(context),
      )
      return Buffer.concat([
        Buffer.of(version),
        nonce,
        cipher.update(plaintext),
        cipher.final(),
        cipher.getAuthTag(),
      ])
    },
    open(sealed, context) {
      const bytes = Buffer.from(sealed)
      if (bytes.length < headBytes + tagBytes || bytes[0] !== version) throw brokenRow(context)
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(1, headBytes), {
        authTagLength: tagBytes,
      })
        .setAAD(Buffer.from(context))
        .setAuthTag(bytes.subarray(-tagBytes))
      const plaintext = decipher.update(bytes.subarray(headBytes, -tagBytes))
      try {
        return Buffer.concat([plaintext, decipher.final()])
      } catch (cause) {
        throw brokenRow(context, cause)
      }
    },
  }
}
