import { randomBytes } from 'node:crypto'
import { mkdtemp, open, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { createCodec } from '../src/eventstore/codec.ts'
import { openPostgresLog } from '../src/eventstore/postgres/log.ts'
import { exportLedger } from '../src/exports/export.ts'
import { formats } from '../src/exports/format.ts'
import { importLog } from '../src/exports/import.ts'
import { fileSink } from '../src/exports/sink.ts'
import { migrate } from '../src/postgres/migrate.ts'
import { allMigrations } from '../src/postgres/migrations.ts'
import { clientConfig, createPool } from '../src/postgres/pool.ts'
import { appendHistory } from './history.ts'

export type ExportBenchOptions = {
  /** A Postgres where databases may be made. */
  readonly url: string
  /** Lengths of history, in events; default 100,000 and 1,000,000. */
  readonly sizes?: readonly number[]
  print(line: string): void
}

const withAdmin = async (url: string, sql: string): Promise<void> => {
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  try {
    await admin.query(sql)
  } finally {
    await admin.end()
  }
}

/** An empty log in a database of its own, which is gone when the work is done. */
const withLog = async <Value>(
  url: string,
  work: (log: Awaited<ReturnType<typeof openPostgresLog>>) => Promise<Value>,
): Promise<Value> => {
  const database = `farebox_bench_${randomBytes(4).toString('hex')}`
  await withAdmin(url, `create database ${database}`)
  const settings = {
    url: Object.assign(new URL(url), { pathname: `/${database}` }).toString(),
    applicationName: 'farebox-bench',
  }
  const pool = createPool(settings)
  try {
    await migrate(pool, allMigrations)
    const log = await openPostgresLog({ pool, connection: clientConfig(settings) })
    try {
      return await work(log)
    } finally {
      await log.close()
    }
  } finally {
    await pool.end()
    await withAdmin(url, `drop database ${database} with (force)`)
  }
}

/** How long each export takes, and the import of the one that is complete; a log of orders, four events each. */
export const benchExports = async ({
  url,
  sizes = [100_000, 1_000_000],
  print,
}: ExportBenchOptions): Promise<void> => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-exports-'))
  const told = (what: string, events: number, ms: number, bytes: number): void =>
    print(
      `${what} of ${events.toLocaleString('en-US')} events: ${(ms / 1000).toFixed(1)} s, ${Math.round((events * 1000) / ms).toLocaleString('en-US')} events a second, ${Math.round(bytes / 2 ** 20)} MiB, this process at ${Math.round(process.memoryUsage.rss() / 2 ** 20)} MiB`,
    )
  try {
    for (const size of sizes) {
      await withLog(url, async (log) => {
        await appendHistory(log, size)
        for (const format of formats) {
          const path = join(directory, format)
          const startMs = performance.now()
          const options = { format, book: null, until: null }
          const { decode } = createCodec()
          const { events } = await exportLedger({ log, decode }, await fileSink(path), options)
          told(`export ${format}`, events, performance.now() - startMs, (await stat(path)).size)
        }
      })
      await withLog(url, async (log) => {
        const file = await open(join(directory, 'jsonl'))
        const startMs = performance.now()
        const { events } = await importLog(log, file)
        told('import', events, performance.now() - startMs, (await file.stat()).size)
        await file.close()
      })
    }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
