import { createHash, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto'
import { open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { readStartFile } from '../postgres/errors.ts'
import type { Migrations } from '../postgres/migrate.ts'

/** The secrets of the service, 32 bytes each. They are never stored in the database. */
export type Keys = {
  /** Encrypts the contents of the vault and derives proxy credentials. */
  readonly master: MasterKey
  /** The seed of the Ed25519 key that signs the log. */
  readonly seal: Uint8Array
}

/** The sources of the keys. */
export type KeySettings = {
  /** The folder of the files `master.key` and `seal.key`, which are created if they do not exist. */
  readonly dataDir: string
  /** 32 bytes; null: the key in the file. */
  readonly masterKey: Buffer | null
  readonly sealKey: Buffer | null
}

export const keyNames = ['master', 'seal'] as const
export type KeyName = (typeof keyNames)[number]

const settingOf = (name: KeyName): string => `FAREBOX_${name.toUpperCase()}_KEY`

/** A key is missing or malformed, or is not the key that the database was created with. */
export class KeyRefused extends Error {
  override readonly name = 'KeyRefused'
}

export const migrations: Migrations = {
  '0010_key_fingerprint': `
    create table vault.key_fingerprint (
      name text primary key,
      fingerprint text not null,
      created_at timestamptz not null default clock_timestamp()
    );
  `,
}

const decode = (text: string, path: string): Buffer => {
  const key = Buffer.from(text.trim(), 'base64')
  if (key.length !== 32)
    throw new KeyRefused(`${path} does not hold 32 bytes in base64; put the key back from a backup`)
  return key
}

/** Written under another name first, so that a kill leaves no incomplete key. */
const writeKey = async (path: string, key: Buffer): Promise<void> => {
  const file = await open(`${path}.new`, 'w', 0o600)
  try {
    await file.writeFile(`${key.toString('base64')}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(`${path}.new`, path)
}

/** The first start creates the key. A lost key is not replaced: a new key would not fit, and would take its path. */
const storedKey = async (dataDir: string, name: KeyName, inUse: boolean): Promise<Buffer> => {
  const path = join(dataDir, `${name}.key`)
  try {
    return decode(await readStartFile(path), path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  if (inUse)
    throw new KeyRefused(
      `${path} is missing, and this database was made with the key in it. Put the file back from a backup, or set ${settingOf(name)}; nothing was changed.`,
    )
  const newKey = randomBytes(32)
  await writeKey(path, newKey)
  return newKey
}

/**
 * The keys from the settings. For others (on the embedded Postgres) the keys in the files under `dataDir`, which the
 * first start creates. Call it while this process has the data directory locked.
 * @param inUse the keys that existing data was created with; none of these is created here
 * @throws KeyRefused if the file of such a key is missing, or a file contains no key
 */
export const loadKeys = async (
  { dataDir, masterKey, sealKey }: KeySettings,
  inUse: readonly KeyName[],
): Promise<Keys> => {
  const loadKey = (name: KeyName): Promise<Buffer> => storedKey(dataDir, name, inUse.includes(name))
  return {
    // Both have 32 bytes: the setting's schema and `decode` check it.
    master: (masterKey ?? (await loadKey('master'))) as Uint8Array as MasterKey,
    seal: sealKey ?? (await loadKey('seal')),
  }
}

/** Identifies a key without revealing it: SHA-256 over the key and its purpose. */
export const fingerprintOf = (name: KeyName, key: Uint8Array): string =>
  createHash('sha256').update(`farebox ${name} key\n`).update(key).digest('hex')

/** The keys that the database was created with. */
export const keysInUse = async (pool: pg.Pool): Promise<readonly KeyName[]> => {
  const { rows } = await pool.query<{ name: KeyName }>('select name from vault.key_fingerprint')
  return rows.map(({ name }) => name)
}

/** The names of the keys that are not those of the database. A database that was never started has none. */
export const readWrongKeys = async (
  client: pg.Pool | pg.ClientBase,
  keys: Partial<Keys>,
): Promise<readonly KeyName[]> => {
  const { rows } = await client.query<{ name: KeyName; fingerprint: string }>(
    'select name, fingerprint from vault.key_fingerprint',
  )
  const stored = new Map(rows.map(({ name, fingerprint }) => [name, fingerprint]))
  return keyNames.filter((name) => {
    const [key, fingerprint] = [keys[name], stored.get(name)]
    return key !== undefined && fingerprint !== undefined && fingerprint !== fingerprintOf(name, key)
  })
}

/** @throws KeyRefused if a key is not the one that the database was made with */
export const checkKeys = async (pool: pg.Pool, keys: Keys): Promise<void> => {
  for (const name of await readWrongKeys(pool, keys))
    throw new KeyRefused(
      `${settingOf(name)} is not the key that this database was made with. Set the former key (it lies in ${name}.key under FAREBOX_DATA where it was made there); nothing was changed.`,
    )
}

/**
 * Stores the keys' fingerprints in the database at the first start and compares them at every later start.
 * @throws KeyRefused
 */
export const storeKeys = async (pool: pg.Pool, keys: Keys): Promise<void> => {
  for (const name of keyNames)
    await pool.query(
      `insert into vault.key_fingerprint (name, fingerprint) values ($1::text, $2::text)
       on conflict (name) do nothing`,
      [name, fingerprintOf(name, keys[name])],
    )
  await checkKeys(pool, keys)
}

/**
 * Replaces the seal key of this database. If the key is in a file under `dataDir`, the file is replaced and the
 * former key is stored next to it. It can be repeated safely after a crash.
 */
export const replaceSealKey = async (
  { dataDir, sealKey }: Pick<KeySettings, 'dataDir' | 'sealKey'>,
  pool: pg.Pool,
  next: Uint8Array,
): Promise<void> => {
  if (sealKey === null) {
    const path = join(dataDir, 'seal.key')
    const previousKey = await storedKey(dataDir, 'seal', true)
    if (!previousKey.equals(next)) {
      await writeKey(`${path}.former-${fingerprintOf('seal', previousKey).slice(0, 8)}`, previousKey)
      await writeKey(path, Buffer.from(next))
    }
  }
  await pool.query(
    `insert into vault.key_fingerprint (name, fingerprint) values ('seal', $1::text)
     on conflict (name) do update set fingerprint = excluded.fingerprint`,
    [fingerprintOf('seal', next)],
  )
}

declare const brand: unique symbol

/** 32 secret bytes from which every key of the vault is derived (`FAREBOX_MASTER_KEY`). Never logged, never stored. */
export type MasterKey = Uint8Array & { readonly [brand]: 'MasterKey' }

const masterKeyBytes = 32

/** @throws RangeError if there are not 32 bytes */
export const masterKey = (bytes: Uint8Array): MasterKey => {
  if (bytes.length !== masterKeyBytes)
    throw new RangeError(`a master key has ${masterKeyBytes} bytes, not ${bytes.length}`)
  return bytes as MasterKey
}

/**
 * A key for one purpose (HKDF-SHA256, RFC 5869), so that data of one purpose reveals nothing about another. A purpose
 * contains its version and never changes, because its results are stored or published. The result is a key object,
 * not bytes: in Node 24 a cipher or HMAC with a buffer as key takes 13 µs longer.
 */
export const deriveKey = (master: MasterKey, purpose: string): KeyObject =>
  createSecretKey(Buffer.from(hkdfSync('sha256', master, Buffer.alloc(0), `farebox ${purpose}`, 32)))
