import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { equalSecrets, sha256 } from '../../kernel/digest.ts'
import { deriveKey, type MasterKey } from './keys.ts'

/** What an event commits to: a value that stands in the vault, under an id, of somebody. No text has a space. */
export type CommitmentSubject = {
  /** E.g. `api-key`. It never changes: it is digested. */
  readonly what: string
  readonly id: string
  /** Whose it is, e.g. an account. */
  readonly owner: string
}

const saltBytes = 32

/** A salt of its own for each value: it stands in the value's row and is erased with it. */
export const freshSalt = (): Buffer => randomBytes(saltBytes)

/**
 * SHA-256, hex, over a line that says what it is and the value, which is salted: it begins with `freshSalt`, or is sealed
 * (src/platform/vault/seal.ts), whose nonce is as good. Once the row is erased the digest says nothing of the value, not
 * even to who can guess it.
 */
export const commitmentOf = ({ what, id, owner }: CommitmentSubject, salted: Uint8Array): string =>
  sha256(Buffer.concat([Buffer.from(`farebox commitment v1 ${what} ${id} ${owner}\n`), salted])).toString(
    'hex',
  )

/**
 * The same digest made by Postgres; null where a part is null.
 * @param sql expressions: three texts, and the salted bytes
 */
export const commitmentSql = (sql: CommitmentSubject & { readonly salted: string }): string =>
  `encode(sha256(convert_to('farebox commitment v1 ' || ${sql.what} || ' ' || ${sql.id} || ' ' || ${sql.owner} || chr(10), 'UTF8') || ${sql.salted}), 'hex')`

/** A commitment to texts and bytes that stand in columns of one row, one after another, with line feeds between. */
export const saltedText = (salt: Uint8Array, ...parts: readonly (string | Uint8Array)[]): Buffer =>
  Buffer.concat([
    salt,
    ...parts.flatMap((part, at) => (at === 0 ? [Buffer.from(part)] : [Buffer.from('\n'), Buffer.from(part)])),
  ])

/** What a row of the vault that lives for minutes or hours says, column by column. */
export type RowFields = readonly (string | null)[]

/** Keyed digests (HMAC-SHA256) of rows: whoever may write to the database, and has no master key, can make none. */
export type RowSigner = {
  sign(fields: RowFields): Buffer
  /** False where a column was changed, or the row was written by somebody else. */
  isSigned(fields: RowFields, signature: Uint8Array | null): boolean
}

/** @param purpose names the kind of row and its version, e.g. `console session v1` */
export const createRowSigner = (master: MasterKey, purpose: string): RowSigner => {
  const key = deriveKey(master, `row ${purpose}`)
  const sign = (fields: RowFields): Buffer =>
    createHmac('sha256', key).update(JSON.stringify(fields)).digest()
  return {
    sign,
    isSigned: (fields, signature) => signature !== null && equalSecrets(signature, sign(fields)),
  }
}

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
