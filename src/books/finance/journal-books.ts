import type pg from 'pg'
import { serviceBook } from '../../money/ledger/postings.ts'

/** Whether a book is the service's or that of a reseller, whose book may be empty. */
export const hasBook = async (pool: pg.Pool, book: string): Promise<boolean> => {
  const { rows } = await pool.query<{ has: boolean }>(
    `select $1::text = $2::text
       or exists (select from read.journal_resellers where 'reseller:' || account_id = $1::text) as has`,
    [book, serviceBook],
  )
  return rows[0]?.has === true
}

/** The books that have an account of this name, or one below it; at most ten, the service's first. */
export const booksOf = async (
  pool: pg.Pool,
  account: string,
  { below, book }: { readonly below: boolean; readonly book: string | null },
): Promise<readonly string[]> => {
  const has = (named: string): string =>
    `exists (select from read.journal_accounts a where a.book = b.book and ${named})`
  const { rows } = await pool.query<{ book: string }>(
    `select book from (
       select $3::text as book where $3::text is not null
       union all select $2::text where $3::text is null
       union all select 'reseller:' || account_id from read.journal_resellers where $3::text is null
     ) b
     where ${has('a.account = $1::text')} or $4::boolean and
       ${has("a.account >= $1::text || ':' and a.account < $1::text || ';'")}
     order by book <> $2::text, book limit 10`,
    [account, serviceBook, book, below],
  )
  return rows.map(({ book: found }) => found)
}
