import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createGunzip } from 'node:zlib'
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { checksumOf, type Migrations } from '../../platform/postgres/migrate.ts'
import { transact } from '../../platform/postgres/transaction.ts'
import {
  type BackupEnd,
  type BackupHead,
  BackupRefused,
  endOfRows,
  type SequenceLine,
  type TableLine,
} from './create-backup.ts'

/** The content of a backup in file order. Rows are raw lines of `copy` with their line ends, many at a time. */
export type BackupPart =
  | { readonly kind: 'head'; readonly head: BackupHead }
  | { readonly kind: 'table'; readonly table: TableLine }
  | { readonly kind: 'rows'; readonly rows: Buffer; readonly count: number }
  | { readonly kind: 'table end' }
  | { readonly kind: 'sequence'; readonly sequence: SequenceLine }
  | { readonly kind: 'end'; readonly end: BackupEnd }

const parse = (line: Buffer): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(line.toString('utf8'))
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // Reported below.
  }
  throw new BackupRefused('a line of it is not what a backup holds')
}

const name = /^(log|vault|work)\.[a-z][a-z0-9_]*$/
const terminator = Buffer.from(`${endOfRows}\n`)
const maxLineBytes = 64 << 20

/** A line that is not a table row. */
const partOf = (line: Buffer, isFirst: boolean): BackupPart => {
  const value = parse(line)
  if (isFirst) {
    if (value.format !== 'farebox-backup' || value.version !== 1)
      throw new BackupRefused('it is no backup that this version reads')
    return { kind: 'head', head: value as unknown as BackupHead }
  }
  if (typeof value.table === 'string' && Array.isArray(value.columns)) {
    if (!name.test(value.table) || value.columns.some((column) => !/^[a-z][a-z0-9_]*$/.test(String(column))))
      throw new BackupRefused(`${value.table} is no table of ours`)
    return { kind: 'table', table: value as TableLine }
  }
  if (typeof value.sequence === 'string') {
    if (!name.test(value.sequence)) throw new BackupRefused(`${value.sequence} is no sequence of ours`)
    return { kind: 'sequence', sequence: value as SequenceLine }
  }
  if (typeof value.sha256 === 'string') return { kind: 'end', end: value as BackupEnd }
  throw new BackupRefused('a line of it is not what a backup holds')
}

/**
 * Reads a backup from the first to the last byte. Its count and digest are checked at the end, so the backup is valid
 * only when all parts were read without an error. Memory contains one chunk, or one row.
 * @throws BackupRefused
 */
export async function* readBackup(path: string): AsyncGenerator<BackupPart> {
  const hash = createHash('sha256')
  let unparsed: Buffer = Buffer.alloc(0)
  let first = true
  let inTable = false
  let tables = 0
  let rows = 0
  let end: BackupEnd | null = null

  /** The complete rows at the start of a text, up to the end of the table if the text contains it. */
  const takeRows = (text: Buffer): { rows: Buffer; count: number; ends: boolean } => {
    let at = 0
    let count = 0
    for (;;) {
      const next = text.indexOf(10, at)
      if (next === -1) return { rows: text.subarray(0, at), count, ends: false }
      if (next - at === 2 && text.compare(terminator, 0, 3, at, next + 1) === 0)
        return { rows: text.subarray(0, at), count, ends: true }
      at = next + 1
      count += 1
    }
  }

  const source = createReadStream(path)
  const gunzip = createGunzip()
  source.on('error', (error) => gunzip.destroy(error))
  source.pipe(gunzip)
  try {
    for await (const chunk of gunzip) {
      let text: Buffer =
        unparsed.length === 0 ? (chunk as Buffer) : Buffer.concat([unparsed, chunk as Buffer])
      for (;;) {
        if (inTable) {
          const takenRows = takeRows(text)
          if (takenRows.count > 0) {
            hash.update(takenRows.rows)
            rows += takenRows.count
            yield { kind: 'rows', rows: takenRows.rows, count: takenRows.count }
          }
          text = text.subarray(takenRows.rows.length)
          if (!takenRows.ends) break
          hash.update(terminator)
          text = text.subarray(terminator.length)
          inTable = false
          yield { kind: 'table end' }
          continue
        }
        const next = text.indexOf(10)
        if (next === -1) break
        if (end !== null) throw new BackupRefused('something follows its end')
        const line = text.subarray(0, next + 1)
        const part = partOf(line, first)
        first = false
        text = text.subarray(next + 1)
        if (part.kind === 'end') {
          end = part.end
          if (end.sha256 !== hash.digest('hex') || end.rows !== rows || end.tables !== tables)
            throw new BackupRefused('its digest does not fit: the file was changed or damaged')
        } else hash.update(line)
        if (part.kind === 'table') {
          inTable = true
          tables += 1
        }
        yield part
      }
      unparsed = text
      if (unparsed.length > maxLineBytes) throw new BackupRefused('a line of it is longer than any row')
    }
  } catch (error) {
    if (error instanceof BackupRefused || (error as NodeJS.ErrnoException).syscall !== undefined) throw error
    // A cut or damaged file fails in zlib first.
    throw new BackupRefused(`it is no whole backup (${(error as Error).message})`, { cause: error })
  } finally {
    source.destroy()
  }
  if (end === null || unparsed.length > 0) throw new BackupRefused('its end is missing: the file is cut off')
}

export type Checked = { readonly head: BackupHead; readonly rows: number }

/**
 * Reads a whole backup and writes nothing. Checks its digest, and that this program has all of its migrations.
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
      `restore it with the version of Farebox that made it, or a later one: it was made by another version, which had ${unknown.map(({ name }) => name).join(', ')}`,
    )
  return { head, rows }
}

const quoteColumns = (columns: readonly string[]): string => columns.map((column) => `"${column}"`).join(', ')

/** Creates the tables as of the backup. The migrations of a later program follow when the rows are there. */
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

/**
 * Disables triggers, because those of the log refuse deletions. Rows that a migration inserted are deleted, because the
 * backup contains them.
 */
const copyRows = async (client: pg.ClientBase, { table, columns }: TableLine) => {
  await client.query(`alter table ${table} disable trigger user; delete from ${table}`)
  const copy = client.query(copyFrom(`copy ${table} (${quoteColumns(columns)}) from stdin`))
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

/** The result is not returned, because it may not fit a JavaScript number. */
const setSequence = (client: pg.ClientBase, { sequence, value, called }: SequenceLine) =>
  client.query('select from setval($1::regclass, $2::bigint, $3::boolean)', [sequence, value, called])

/**
 * Restores a checked backup into an empty database in one transaction.
 * @throws BackupRefused when the database is not empty; errors of Postgres
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
    let table: Awaited<ReturnType<typeof copyRows>> | null = null
    let rows = 0
    for await (const part of readBackup(path))
      switch (part.kind) {
        case 'head':
          await migrateAsOf(client, part.head, migrations)
          break
        case 'table':
          table = await copyRows(client, part.table)
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
