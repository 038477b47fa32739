import { once } from 'node:events'
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { checksumOf, type Migrations } from '../../platform/postgres/migrate.ts'
import { transact } from '../../platform/postgres/transaction.ts'
import { type BackupHead, BackupRefused, type SequenceLine, type TableLine } from './format.ts'
import { readBackup } from './read.ts'

export type Checked = { readonly head: BackupHead; readonly rows: number }

/**
 * Reads a whole backup and writes nothing: its digest, and that this program knows every migration in it.
 * @throws BackupRefused
 */
export const checkBackup = async (
  path: string,
  migrations: Migrations,
  onProgress?: (rows: number) => void,
): Promise<Checked> => {
  let head: BackupHead | null = null
  let rows = 0
  for await (const part of readBackup(path)) {
    if (part.kind === 'head') head = part.head
    if (part.kind === 'rows') {
      rows += part.count
      onProgress?.(rows)
    }
  }
  if (head === null) throw new BackupRefused('it is empty')
  const unknown = head.migrations.filter(
    ({ name, checksum }) => checksumOf(migrations[name] ?? '') !== checksum,
  )
  if (unknown.length > 0)
    throw new BackupRefused(
      `it was made by another version of Farebox (${unknown.map(({ name }) => name).join(', ')}): restore it with that one, or a later one`,
    )
  return { head, rows }
}

const quoted = (columns: readonly string[]): string => columns.map((column) => `"${column}"`).join(', ')

/** The tables as they were when the backup was made; a later program migrates them further at its first start. */
const migrateAsOf = async (
  client: pg.ClientBase,
  head: BackupHead,
  migrations: Migrations,
): Promise<void> => {
  await client.query(`create table public.farebox_migration (
    name text primary key, checksum text not null, applied_at timestamptz not null default clock_timestamp())`)
  for (const { name, checksum } of head.migrations) {
    await client.query(migrations[name] ?? '')
    await client.query('insert into public.farebox_migration (name, checksum) values ($1::text, $2::text)', [
      name,
      checksum,
    ])
  }
}

/** The log refuses deletions by trigger, and what a migration put into a table comes from the backup. */
const fill = async (client: pg.ClientBase, { table, columns }: TableLine) => {
  await client.query(`alter table ${table} disable trigger user; delete from ${table}`)
  const copy = client.query(copyFrom(`copy ${table} (${quoted(columns)}) from stdin`))
  const failed = new Promise<never>((_, reject) => copy.once('error', reject))
  failed.catch(() => undefined)
  return {
    write: async (rows: Buffer): Promise<void> => {
      if (!copy.write(Buffer.from(rows))) await Promise.race([once(copy, 'drain'), failed])
    },
    end: async (): Promise<void> => {
      copy.end()
      await Promise.race([once(copy, 'finish'), failed])
      await client.query(`alter table ${table} enable trigger user`)
    },
  }
}

/** Its answer is not asked for: it may be no number of JavaScript. */
const setSequence = (client: pg.ClientBase, { sequence, value, called }: SequenceLine) =>
  client.query('select from setval($1::regclass, $2::bigint, $3::boolean)', [sequence, value, called])

/**
 * Puts a checked backup into a database in which nothing is, in one transaction: all of it or nothing.
 * @throws BackupRefused when the database is not empty; what Postgres throws
 */
export const restoreBackup = async (
  client: pg.ClientBase,
  path: string,
  migrations: Migrations,
  onProgress?: (rows: number) => void,
): Promise<void> => {
  await transact(client, async () => {
    await client.query('set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0')
    const { rows: found } = await client.query(
      "select 1 from pg_namespace where nspname in ('log', 'engine', 'read', 'vault', 'work')",
    )
    if (found.length > 0)
      throw new BackupRefused('the database is not empty: a backup is restored into a new one')
    let table: Awaited<ReturnType<typeof fill>> | null = null
    let rows = 0
    for await (const part of readBackup(path))
      switch (part.kind) {
        case 'head':
          await migrateAsOf(client, part.head, migrations)
          break
        case 'table':
          table = await fill(client, part.table)
          break
        case 'rows':
          await table?.write(part.rows)
          rows += part.count
          onProgress?.(rows)
          break
        case 'table end':
          await table?.end()
          break
        case 'sequence':
          await setSequence(client, part.sequence)
          break
        case 'end':
          break
        default:
          part satisfies never
      }
  })
  await client.query('analyze')
}
