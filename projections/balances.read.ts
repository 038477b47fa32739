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

/** Movements that are summed at the most: an account with more in the time is told so. */
const summedAtMost = 20_000

/**
 * What an account spent on each day (UTC) since a time: orders, and holds less what was released; refunds are not taken
 * off. `whole` is false when there were too many movements to sum them all.
 */
export const spentByDay = async (
  db: Kysely<ReadDatabase>,
  account: AccountId,
  since: string,
): Promise<{ readonly days: ReadonlyMap<string, number>; readonly whole: boolean }> => {
  const { rows } = await sql<{ day: string; micros: number; looked: number; left: number }>`
    with newest as (
      select created_at, type, amount_micros from read.transactions
       where account_id = ${account} order by position desc limit ${sql.lit(summedAtMost)})
    select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day,
           coalesce(sum(-amount_micros) filter (where type in ('order', 'hold', 'release')), 0)::bigint as micros,
           (select count(*) from newest)::bigint as looked,
           (select count(*) from newest where created_at < ${since}::timestamptz)::bigint as left
      from newest where created_at >= ${since}::timestamptz group by 1 order by 1`.execute(db)
  const [first] = rows
  return {
    days: new Map(rows.map(({ day, micros }) => [day, micros])),
    // Where one from before the time was looked at, all since then were.
    whole: first === undefined || first.looked < summedAtMost || first.left > 0,
  }
}

/**
 * Up to `limit` transactions within the scope, newest first, before a position; null: from the newest on. However many
 * there are, it reads as many rows as it gives.
 */
export const transactionsBefore = (
  db: Kysely<ReadDatabase>,
  scope: Scope,
  page: { readonly before: number | null; readonly limit: number },
): Promise<readonly TransactionRow[]> => {
  const rows = transactionsOf(db, scope).selectAll().orderBy('position', 'desc').limit(page.limit)
  return (page.before === null ? rows : rows.where('position', '<', page.before)).execute()
}

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
