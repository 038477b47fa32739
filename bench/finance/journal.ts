import { foldBatch } from '../../projections/engine/fold-batch.ts'
import { createRowCache } from '../../projections/engine/row-cache.ts'
import { createIndexSql, createTableSql } from '../../projections/engine/table-sql.ts'
import { createBatchWriter } from '../../projections/engine/write-batch.ts'
import { journal } from '../../projections/journal.ts'
import { createCodec } from '../../src/platform/eventstore/codec.ts'
import { openSession } from '../../src/platform/postgres/session.ts'
import { cpuMs, figure } from '../bench.ts'
import type { BenchLog } from '../database.ts'
import { backendCpuMs } from './backend-cpu.ts'

/** As the books group folds under 5,000 orders a second: batches of 5,000 events, one statement each. */
const batchEvents = 5000
const sessionName = 'farebox bench journal'

const questions = [
  [
    'trial balance',
    `select book, account, sum from (
       select account_number, sum(amount_micros) from read.journal_postings where position <= 1e15 group by 1
     ) each join read.journal_accounts on number = account_number`,
  ],
  [
    'entries of an order',
    `select * from read.journal_entries where order_id = (select order_id from read.journal_entries order by position desc limit 1)`,
  ],
  [
    'a wallet',
    `select sum(amount_micros) from read.journal_postings where account_number = (
       select number from read.journal_accounts
       where book = 'service' and account like 'liabilities:wallet:%' limit 1)`,
  ],
] as const

/**
 * What the journal costs an order: processor time of this process for folding and sending, beside that of reading and
 * decoding the log (which all groups share), and of its Postgres backend.
 */
export const benchJournal = async ({ pool, log }: BenchLog, print: (line: string) => void): Promise<void> => {
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
    let readMs = 0
    let foldMs = 0
    let sendMs = 0
    const before = (await backendCpuMs(pool, sessionName)) ?? 0
    for (let after = 0; ; ) {
      const beginMs = cpuMs()
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
      readMs += startMs - beginMs
      foldMs += foldedMs - startMs
      sendMs += cpuMs() - foldedMs
    }
    const backend = (await backendCpuMs(pool, sessionName)) ?? Number.NaN
    const micros = (ms: number): string => `${figure((ms * 1000) / orders, 1)} µs`
    print(
      `journal: ${figure(orders)} orders, processor time an order: fold ${micros(foldMs)}, send ${micros(sendMs)}, Postgres ${micros(backend - before)}; both ${figure((foldMs + sendMs) / readMs, 2)} times what reading and decoding its events takes (${micros(readMs)})`,
    )
    const { rows } = await pool.query<{ name: string; size: number; indexes: number }>(
      `select relname as name, pg_table_size(oid) as size, pg_indexes_size(oid) as indexes from pg_class
       where relnamespace = 'read'::regnamespace and relkind = 'r' and pg_table_size(oid) > 65536 order by 1`,
    )
    for (const { name, size, indexes } of rows)
      print(
        `journal: ${name} ${Math.round(size / orders)} bytes an order, its indexes ${Math.round(indexes / orders)}`,
      )
    await pool.query('analyze read.journal_entries; analyze read.journal_postings')
    for (const [what, sql] of questions) {
      const startedMs = performance.now()
      await pool.query(sql)
      print(`journal: ${what} in ${(performance.now() - startedMs).toFixed(1)} ms`)
    }
  } finally {
    await session.close()
  }
}
