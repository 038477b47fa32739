import { journal } from '../../projections/journal.ts'
import type { BenchLog } from '../database.ts'
import { costOfModel } from './model-cost.ts'

/** As the books group folds under 5,000 orders a second: batches of 5,000 events, one statement each. */
const batchEvents = 5000

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

/** What the journal costs an order, how large its tables become, and what its reads take. */
export const benchJournal = async (place: BenchLog, print: (line: string) => void): Promise<void> => {
  const { pool } = place
  const orders = await costOfModel(place, { model: journal, batchEvents }, print)
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
}
