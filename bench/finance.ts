import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { foldBatch } from '../projections/engine/fold-batch.ts'
import { createRowCache } from '../projections/engine/row-cache.ts'
import { openSession } from '../projections/engine/session.ts'
import { createIndexSql, createTableSql } from '../projections/engine/table-sql.ts'
import { createBatchWriter } from '../projections/engine/write-batch.ts'
import { journal } from '../projections/journal.ts'
import { createCodec } from '../src/eventstore/codec.ts'
import { openPostgresLog } from '../src/eventstore/postgres/log.ts'
import { migrate } from '../src/postgres/migrate.ts'
import { allMigrations } from '../src/postgres/migrations.ts'
import { clientConfig, createPool } from '../src/postgres/pool.ts'
import { backendCpuMs } from './finance/backend-cpu.ts'
import type { ReplayFigures } from './finance/replay-process.ts'
import { appendHistory } from './history.ts'

export type FinanceBenchOptions = {
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

const count = (value: number): string => Math.round(value).toLocaleString('en-US')
const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`
const micros = (ms: number, of: number): string => `${((ms * 1000) / of).toFixed(1)} µs`

const runReplay = async (url: string): Promise<ReplayFigures> => {
  const program = join(import.meta.dirname, 'finance/replay-process.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [program, url])
  return JSON.parse(stdout)
}

/** As the books group folds under 5,000 orders a second: batches of 5,000 events, one statement each. */
const batchEvents = 5000
const sessionName = 'farebox bench journal'

/**
 * What the journal costs an order: processor time of this process for folding and sending (reading and decoding the log
 * are shared with the other groups, and left out), and of its Postgres backend.
 */
const benchJournal = async (pool: pg.Pool, url: string, print: (line: string) => void): Promise<void> => {
  const log = await openPostgresLog({
    pool,
    connection: clientConfig({ url, applicationName: 'farebox-bench' }),
  })
  const session = await openSession(pool, sessionName)
  try {
    for (const table of journal.tables) {
      await session.client.query(createTableSql('read', table))
      for (const sql of createIndexSql('read', table)) await session.client.query(sql)
    }
    const { decode } = createCodec()
    const writer = createBatchWriter(session.client, 'read')
    const cache = createRowCache({ maxRows: 20_000, complete: false })
    let orders = 0
    let foldMs = 0
    let sendMs = 0
    const cpuMs = (): number => {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1000
    }
    const before = (await backendCpuMs(pool, sessionName)) ?? 0
    for (let after = 0; ; ) {
      const page = await log.readAll(after, batchEvents)
      if (page.length === 0) break
      after = page.at(-1)?.position ?? after
      const events = page.map(decode)
      orders += events.filter(({ type }) => type === 'WalletDebited').length
      const startMs = cpuMs()
      const changes = await foldBatch({ models: [journal], events, cache, load: writer.load })
      const foldedMs = cpuMs()
      await writer.write(changes.tables, null)
      changes.commit()
      foldMs += foldedMs - startMs
      sendMs += cpuMs() - foldedMs
    }
    const backend = (await backendCpuMs(pool, sessionName)) ?? Number.NaN
    print(
      `journal: ${count(orders)} orders, processor time an order: fold ${micros(foldMs, orders)}, send ${micros(sendMs, orders)}, Postgres ${micros(backend - before, orders)}`,
    )
    const { rows } = await pool.query<{ name: string; size: number; indexes: number }>(
      `select relname as name, pg_table_size(oid) as size, pg_indexes_size(oid) as indexes from pg_class
       where relnamespace = 'read'::regnamespace and relkind = 'r' and pg_table_size(oid) > 65536 order by 1`,
    )
    for (const { name, size, indexes } of rows)
      print(
        `journal: ${name} ${Math.round(size / orders)} bytes an order, its indexes ${Math.round(indexes / orders)}`,
      )
    for (const [what, sql] of [
      [
        'trial balance',
        'select book, account, sum(amount_micros) from read.journal_postings where position <= 1e15 group by 1, 2',
      ],
      [
        'entries of an order',
        `select * from read.journal_entries where order_id = (select order_id from read.journal_entries order by position desc limit 1)`,
      ],
      [
        'a wallet',
        `select sum(amount_micros) from read.journal_postings where book = 'service' and account = (
           select account from read.journal_postings where account like 'liabilities:wallet:%' limit 1)`,
      ],
    ] as const) {
      await pool.query('analyze read.journal_entries; analyze read.journal_postings')
      const startedMs = performance.now()
      await pool.query(sql)
      print(`journal: ${what} in ${(performance.now() - startedMs).toFixed(1)} ms`)
    }
  } finally {
    await session.close()
    await log.close()
  }
}

/**
 * Replay in events a second and its peak of memory over histories of different lengths (a peak at a million events must
 * be within a fifth of that at a hundred thousand), and what the journal costs an order.
 */
export const benchFinance = async ({
  url,
  sizes = [100_000, 1_000_000],
  print,
}: FinanceBenchOptions): Promise<readonly ReplayFigures[]> => {
  const results: ReplayFigures[] = []
  for (const events of sizes) {
    const database = `farebox_bench_${randomBytes(4).toString('hex')}`
    await withAdmin(url, `create database ${database}`)
    const own = Object.assign(new URL(url), { pathname: `/${database}` }).toString()
    const settings = { url: own, applicationName: 'farebox-bench' }
    const pool = createPool({ ...settings, statementTimeoutMs: 0 })
    try {
      await migrate(pool, allMigrations)
      const log = await openPostgresLog({ pool, connection: clientConfig(settings) })
      await appendHistory(log, events).finally(() => log.close())
      const figures = await runReplay(own)
      results.push(figures)
      const { ms, cpuMs, peakBytes, entries, accounts } = figures
      print(
        `replay: ${count(figures.events)} events (${count(entries)} entries, ${count(accounts)} accounts) in ${(ms / 1000).toFixed(1)} s, ${count((figures.events * 1000) / ms)} events a second, processor time ${micros(cpuMs, figures.events)} an event, peak memory ${mebibytes(peakBytes)}`,
      )
      await benchJournal(pool, own, print)
    } finally {
      await pool.end()
      await withAdmin(url, `drop database ${database} with (force)`)
    }
  }
  const [first, last] = [results[0], results.at(-1)]
  if (first && last && first !== last)
    print(
      `replay: peak memory at ${count(last.events)} events is ${(last.peakBytes / first.peakBytes).toFixed(2)} times that at ${count(first.events)}`,
    )
  return results
}
