import type pg from 'pg'
import { newId } from '../../kernel/ids.ts'
import type { TokenForm } from '../../kernel/token-form.ts'
import type { Result } from '../../platform/commands/command.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'
import { commitmentOf, freshSalt, saltedText } from '../../platform/vault/seal.ts'

/** A key in the vault. `salt` is null for a key of an older release that no event commits to. */
export type KeyRow = {
  readonly hash: Buffer
  readonly salt: Buffer | null
  readonly id: string
  /** The account of an API key, the stream of a finance token. */
  readonly owner: string
}

type SaltedKeyRow = KeyRow & { readonly salt: Buffer }

/**
 * A kind of API key: keys of accounts, or the tokens that read the books. Each kind has its own prefix, so that no key
 * works in place of one of another kind. The vault only maps the hash of a key to its id. The stream of the owner says
 * that the key was issued and may be used, and commits to the hash. A row without that event gives no access.
 */
export type KeyKind<Key extends string = string> = {
  readonly form: TokenForm<Key>
  readonly idPrefix: string
  /** The subject name in the commitments. */
  readonly what: string
  readonly insert: (row: SaltedKeyRow) => pg.QueryConfig
  /** Deletes the key `$1`. */
  readonly deleteSql: string
  /** Finds the `KeyRow`s of the hashes `$1`. */
  readonly findQuery: { readonly name: string; readonly text: string }
}

/** The commitment of a key in its event. */
export const keyCommitment = (
  { what }: Pick<KeyKind, 'what'>,
  { hash, salt, id, owner }: SaltedKeyRow,
): string => commitmentOf({ what, id, owner }, saltedText(salt, hash))

/** Stores a key's hash and returns its commitment. The key works once its event is in the log. */
export const storeKey = async (pool: pg.Pool, kind: KeyKind, key: Omit<KeyRow, 'salt'>): Promise<string> => {
  const row = { ...key, salt: freshSalt() }
  await pool.query(kind.insert(row))
  return keyCommitment(kind, row)
}

export type NewKey<Id extends string> = {
  readonly keyId: Id
  /** The first 8 characters of the key. */
  readonly displayPrefix: string
  readonly commitment: string
}

/**
 * Generates a key, stores its hash, then issues it with `command`. The hash is deleted if the command is refused. After
 * a crash in between, the vault has the hash of a key that does not exist.
 * @param owner the owner of the key; the new id belongs to the same log
 */
export const generateStoredKey = async <Key extends string, Id extends string, Refusal, Done>(
  pool: pg.Pool,
  kind: KeyKind<Key>,
  owner: string,
  command: (newKey: NewKey<Id>) => Promise<Result<Refusal, Done>>,
): Promise<Result<Refusal, Done & { readonly keyId: Id; readonly key: Key }>> => {
  const key = kind.form.generate()
  const keyId = newId<Id>(kind.idPrefix, owner)
  const commitment = await storeKey(pool, kind, { hash: kind.form.hash(key), id: keyId, owner })
  const result = await command({ keyId, displayPrefix: kind.form.displayPrefixOf(key), commitment })
  if (result.outcome === 'done') return { ...result, keyId, key }
  await pool.query(kind.deleteSql, [keyId])
  return result
}

/**
 * Finds the key with this hash; null for an unknown or revoked one. Concurrent calls share a query. A row that was
 * replaced in the database does not match the commitment: it gives no access and is passed to `onMismatch`.
 * @param issuedKey the key's state in the log; null if it was not issued, because its command was refused or still runs
 *
 * The index compares hashes in a time that depends on their bytes. This is safe: the hash of a guess is unpredictable,
 * so the number of matching bytes does not help to choose the next guess.
 */
export const createKeyFinder = <
  Row extends KeyRow,
  Found extends { readonly key: { readonly revoked: boolean; readonly commitment: string | null } },
>(
  pool: pg.Pool,
  kind: KeyKind,
  issuedKey: (row: Row) => Promise<Found | null>,
  onMismatch: (row: Row) => void,
) => {
  const loadRow = createBatchLoader(async (ids: readonly string[]) => {
    const values = [ids.map((id) => Buffer.from(id, 'base64'))]
    const { rows } = await pool.query<Row>({ ...kind.findQuery, values })
    return new Map(rows.map((row) => [row.hash.toString('base64'), row]))
  })
  return async (hash: Buffer): Promise<(Found & { readonly row: Row }) | null> => {
    const row = await loadRow(hash.toString('base64'))
    const found = row ? await issuedKey(row) : null
    if (!row || !found || found.key.revoked) return null
    const { salt } = row
    if (salt !== null && found.key.commitment === keyCommitment(kind, { ...row, salt }))
      return { ...found, row }
    onMismatch(row)
    return null
  }
}
