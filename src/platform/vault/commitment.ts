import { randomBytes } from 'node:crypto'
import { sha256 } from '../../kernel/hash.ts'

/** What an event commits to: a value that stands in the vault, under an id, of somebody. No text has a space. */
export type Committed = {
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
export const commitmentOf = ({ what, id, owner }: Committed, salted: Uint8Array): string =>
  sha256(Buffer.concat([Buffer.from(`farebox commitment v1 ${what} ${id} ${owner}\n`), salted])).toString(
    'hex',
  )

/**
 * The same digest made by Postgres; null where a part is null.
 * @param sql expressions: three texts, and the salted bytes
 */
export const commitmentSql = (sql: Committed & { readonly salted: string }): string =>
  `encode(sha256(convert_to('farebox commitment v1 ' || ${sql.what} || ' ' || ${sql.id} || ' ' || ${sql.owner} || chr(10), 'UTF8') || ${sql.salted}), 'hex')`
