import { type Kysely, sql } from 'kysely'
import type { TransactionRow } from '../../projections/balances.ts'
import type { ReadDatabase } from '../../projections/database.ts'
import type { AccountId } from '../ids.ts'
import { createGathered } from '../postgres/gathered.ts'

/** What an account can spend, micro-dollars; 0 before its first money. Readers at once share one statement. */
export const createAvailableMicros = (
  db: Kysely<ReadDatabase>,
): ((account: AccountId) => Promise<number>) => {
  const find = createGathered<AccountId, number>(async (accounts) => {
    const rows = await db
      .selectFrom('read.balances')
      .select(['account_id', 'available_micros'])
      .where('account_id', '=', sql<string>`any (${accounts}::text[])`)
      .execute()
    return new Map(rows.map((row) => [row.account_id as AccountId, row.available_micros]))
  })
  return async (account) => (await find(account)) ?? 0
}

/** A page of the account's transactions, newest first, and how many there are in all. */
export const listTransactions = async (
  db: Kysely<ReadDatabase>,
  account: AccountId,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly transactions: readonly TransactionRow[]; readonly total: number }> => {
  const [transactions, counted] = await Promise.all([
    db
      .selectFrom('read.transactions')
      .selectAll()
      .where('account_id', '=', account)
      .orderBy('position', 'desc')
      .limit(page.limit)
      .offset(page.offset)
      .execute(),
    db
      .selectFrom('read.balances')
      .select('transactions')
      .where('account_id', '=', account)
      .executeTakeFirst(),
  ])
  return { transactions, total: counted?.transactions ?? 0 }
}
