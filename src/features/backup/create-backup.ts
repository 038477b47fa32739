import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createGzip } from 'node:zlib'
import type pg from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import type { Sink } from '../../platform/outgoing/file-sink.ts'
import { allowSilence } from '../../platform/postgres/postgres-session.ts'

/** The first line of a backup: its origin. */
export type BackupHead = {
  readonly format: 'farebox-backup'
  readonly version: 1
  readonly createdAt: string
  /** `eventstoredb`: this file does not contain the log. */
  readonly log: {
    readonly kind: 'postgres' | 'eventstoredb'
    readonly logId: string
    readonly position: number
  }
  /** In the order in which they were applied. */
  readonly migrations: readonly { readonly name: string; readonly checksum: string }[]
  readonly keys: readonly { readonly name: string; readonly fingerprint: string }[]
}

/** Begins a table: its rows follow in the text format of Postgres's `copy`, and then the line `\.`. */
export type TableLine = { readonly table: string; readonly columns: readonly string[] }

export type SequenceLine = {
  readonly sequence: string
  /**
   * A bigint as text. The log's position sequence is at the smallest bigint after a refused append, and always on
   * EventStoreDB. Backups of older versions have a number.
   */
  readonly value: string | number
  readonly called: boolean
}

/** The last line: SHA-256 of all bytes before it. */
export type BackupEnd = { readonly tables: number; readonly rows: number; readonly sha256: string }

export const endOfRows = '\\.'

/** The file is incomplete, or does not match this program, its keys or its database. Nothing was written. */
export class BackupRefused extends Error {
  override readonly name = 'BackupRefused'
}

/** Read tables, checkpoints and snapshots are left out. They are rebuilt from the log after a restore. */
const tablesSql = `
  select format('%I.%I', n.nspname, c.relname) as name, pg_relation_size(c.oid) as bytes,
    (select array_agg(a.attname::text order by a.attnum) from pg_attribute a
     where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and n.nspname in ('log', 'vault', 'work')
  order by c.oid`

const sequencesSql = `
  select format('%I.%I', schemaname, sequencename) as name from pg_sequences
  where schemaname in ('log', 'vault', 'work') order by 1`

export type Created = {
  readonly tables: number
  readonly rows: number
  readonly logId: string
  readonly position: number
}

export type CreateOptions = {
  readonly createdAt: string
  readonly log: BackupHead['log'] | null
  /** Called with the table bytes read so far, and with an estimate of their total. */
  readonly onProgress?: (bytesDone: number, total: number) => void
}

/** Compresses data into a sink; `take` waits while the sink is slower. */
const createGzipSink = (sink: Sink) => {
  const gzip = createGzip({ level: 3 })
  const hash = createHash('sha256')
  const drained = (async () => {
    for await (const chunk of gzip) await sink.write(chunk as Buffer)
  })()
  drained.catch((error) => gzip.destroy(error as Error))
  const push = async (data: string | Buffer): Promise<void> => {
    if (!gzip.write(data)) await Promise.race([once(gzip, 'drain'), drained])
  }
  return {
    take: async (data: string | Buffer): Promise<void> => {
      hash.update(data)
      await push(data)
    },
    end: async (end: Omit<BackupEnd, 'sha256'>): Promise<void> => {
      await push(`${JSON.stringify({ ...end, sha256: hash.digest('hex') })}\n`)
      gzip.end()
      await drained
      await sink.finish()
    },
  }
}

/**
 * Writes everything in Postgres that cannot be rebuilt from the log, in one repeatable-read snapshot. A running server
 * is not blocked.
 * @throws errors of Postgres and of the sink
 */
export const createBackup = async (
  client: pg.ClientBase,
  sink: Sink,
  { createdAt, log, onProgress }: CreateOptions,
): Promise<Created> => {
  const gzipSink = createGzipSink(sink)
  await client.query('begin isolation level repeatable read read only')
  try {
    allowSilence(client)
    await client.query('set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0')
    const query = async <Row extends pg.QueryResultRow>(sql: string): Promise<Row[]> =>
      (await client.query<Row>(sql)).rows
    const [logHead] = await query<{ logId: string; position: number }>(
      'select log_id as "logId", last_position as position from log.head',
    )
    const logOf = log ?? { kind: 'postgres', logId: logHead?.logId ?? '', position: logHead?.position ?? 0 }
    const head: BackupHead = {
      format: 'farebox-backup',
      version: 1,
      createdAt,
      log: logOf,
      migrations: await query(
        'select name, checksum from public.farebox_migration order by applied_at, name',
      ),
      keys: await query('select name, fingerprint from vault.key_fingerprint order by name'),
    }
    await gzipSink.take(`${JSON.stringify(head)}\n`)
    const tables = await query<{ name: string; bytes: number; columns: string[] }>(tablesSql)
    const total = tables.reduce((sum, { bytes }) => sum + bytes, 0)
    let bytesDone = 0
    let rows = 0
    for (const { name, bytes, columns } of tables) {
      const line: TableLine = { table: name, columns }
      await gzipSink.take(`${JSON.stringify(line)}\n`)
      const list = columns.map((column) => `"${column}"`).join(', ')
      const stream = client.query(copyTo(`copy ${name} (${list}) to stdout`))
      for await (const chunk of stream) {
        await gzipSink.take(chunk as Buffer)
        bytesDone += (chunk as Buffer).length
        onProgress?.(Math.min(bytesDone, total), total)
      }
      rows += stream.rowCount
      bytesDone += Math.max(0, bytes - bytesDone)
      await gzipSink.take(`${endOfRows}\n`)
    }
    for (const { name } of await query<{ name: string }>(sequencesSql)) {
      const [at] = await query<Omit<SequenceLine, 'sequence'>>(
        `select last_value::text as value, is_called as called from ${name}`,
      )
      if (!at) throw new Error(`sequence ${name} has no row`)
      const line: SequenceLine = { sequence: name, ...at }
      await gzipSink.take(`${JSON.stringify(line)}\n`)
    }
    await gzipSink.end({ tables: tables.length, rows })
    return { tables: tables.length, rows, logId: logOf.logId, position: logOf.position }
  } finally {
    await client.query('rollback').catch(() => undefined)
  }
}
