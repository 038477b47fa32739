import { type Kysely, sql } from 'kysely'
import type { AccountId } from '../src/kernel/ids.ts'
import { countedPage } from '../src/platform/postgres/counted-page.ts'
import { createGathered } from '../src/platform/postgres/gathered.ts'
import type { Scope } from '../src/terms/holder.ts'
import type { TransactionRow } from './balances.ts'
import type { ReadDatabase } from './database.ts'

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

const transactionsOf = (db: Kysely<ReadDatabase>, { accountId, customerId }: Scope) => {
  const ofAccount = db.selectFrom('read.transactions').where('account_id', '=', accountId)
  return customerId === null ? ofAccount : ofAccount.where('customer_id', '=', customerId)
}

/** Of all of an account's transactions it is known; a customer has few. */
const countTransactions = (db: Kysely<ReadDatabase>, scope: Scope) =>
  scope.customerId === null
    ? db.selectFrom('read.balances').select('transactions as total').where('account_id', '=', scope.accountId)
    : transactionsOf(db, scope).select((is) => is.fn.countAll<number>().as('total'))

/** A page of the transactions within the scope, newest first, and how many there are in all. */
export const listTransactions = async (
  db: Kysely<ReadDatabase>,
  scope: Scope,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly transactions: readonly TransactionRow[]; readonly total: number }> => {
  const { rows, total } = await countedPage(
    transactionsOf(db, scope).selectAll().orderBy('position', 'desc'),
    countTransactions(db, scope),
    page,
  )
  return { transactions: rows, total }
}
