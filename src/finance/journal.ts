import type pg from 'pg'
import { serviceBook } from '../ledger/postings.ts'

/**
 * Questions to the journal. Its rows only come, so an answer up to a position that it has passed never changes, however
 * many statements it takes. Amounts are micro-dollars: a debit is above zero, a credit below; sums are bigint, for over
 * accounts they pass the safe integers.
 */

/** Positions after `after`, up to and including `to`. */
export type Range = { readonly after: number; readonly to: number }

export type AccountSums = {
  readonly book: string
  readonly account: string
  /** The balance as of `after`. */
  readonly openingMicros: bigint
  /** Debits and credits in the range, both from zero on. */
  readonly debitMicros: bigint
  readonly creditMicros: bigint
}

type SumRow = { book: string; account: string; opening: string; debit: string; credit: string }

const sums = `
  coalesce(sum(amount_micros) filter (where position <= $1::bigint), 0) as opening,
  coalesce(sum(amount_micros) filter (where position > $1::bigint and amount_micros > 0), 0) as debit,
  coalesce(-sum(amount_micros) filter (where position > $1::bigint and amount_micros < 0), 0) as credit`

const toSums = ({ book, account, opening, debit, credit }: SumRow): AccountSums => ({
  book,
  account,
  openingMicros: BigInt(opening),
  debitMicros: BigInt(debit),
  creditMicros: BigInt(credit),
})

/** The balance at the end of the range. */
export const closingMicros = ({
  openingMicros,
  debitMicros,
  creditMicros,
}: Omit<AccountSums, 'book' | 'account'>) => openingMicros + debitMicros - creditMicros

/** Every account that moved up to the end of the range, by book and name; `depth` cuts names to so many parts. */
export const sumAccounts = async (
  pool: pg.Pool,
  range: Range,
  filter: { readonly book: string | null; readonly depth: number | null },
): Promise<readonly AccountSums[]> => {
  const account =
    filter.depth === null
      ? 'account'
      : `array_to_string((string_to_array(account, ':'))[1:${Math.trunc(filter.depth)}], ':')`
  const ofBook =
    filter.book === null
      ? ''
      : 'and account_number in (select number from read.journal_accounts where book = $3::text)'
  const { rows } = await pool.query<SumRow>(
    `select book, account, sum(opening) as opening, sum(debit) as debit, sum(credit) as credit from (
       select book, ${account} as account, opening, debit, credit from (
         select account_number, ${sums} from read.journal_postings
         where position <= $2::bigint ${ofBook} group by account_number
       ) each join read.journal_accounts a on a.number = each.account_number
     ) named group by book, account order by book, account`,
    filter.book === null ? [range.after, range.to] : [range.after, range.to, filter.book],
  )
  return rows.map(toSums)
}

/** One account, or with `below` all accounts whose names begin with its parts. */
export type AccountFilter = { readonly book: string; readonly account: string; readonly below: boolean }

/**
 * The legs of `a:b` and of everything from `a:b:` on; `;` is the character after `:`, so that the index is a range. One
 * account's legs come in the order of the log by their own index, without a sort.
 */
const within = (
  { account, below }: AccountFilter,
  first: number,
): { sql: string; values: readonly string[] } => {
  const numbers = `select number from read.journal_accounts where book = $${first}::text`
  return below
    ? {
        sql: `account_number in (${numbers} and (account = $${first + 1}::text
                or account >= $${first + 2}::text and account < $${first + 3}::text))`,
        values: [account, `${account}:`, `${account};`],
      }
    : { sql: `account_number = (${numbers} and account = $${first + 1}::text)`, values: [account] }
}

/** The account itself and every account below it that moved up to the end of the range. */
export const sumBelow = async (
  pool: pg.Pool,
  range: Range,
  account: { readonly book: string; readonly account: string },
): Promise<readonly AccountSums[]> => {
  const { sql, values } = within({ ...account, below: true }, 3)
  const { rows } = await pool.query<SumRow>(
    `select book, account, opening, debit, credit from (
       select account_number, ${sums} from read.journal_postings
       where position <= $2::bigint and ${sql} group by account_number
     ) each join read.journal_accounts a on a.number = each.account_number order by account`,
    [range.after, range.to, account.book, ...values],
  )
  return rows.map(toSums)
}

export type AccountTotals = Omit<AccountSums, 'book' | 'account'> & {
  /** Legs in the range. */
  readonly lines: number
}

/** The sums of an account, or null where no entry up to the end of the range names it. */
export const totalsOf = async (
  pool: pg.Pool,
  range: Range,
  filter: AccountFilter,
): Promise<AccountTotals | null> => {
  const { sql, values } = within(filter, 3)
  const { rows } = await pool.query<SumRow & { lines: number; all: number }>(
    `select '' as book, '' as account, count(*) as all, count(*) filter (where position > $1::bigint) as lines, ${sums}
     from read.journal_postings where position <= $2::bigint and ${sql}`,
    [range.after, range.to, filter.book, ...values],
  )
  const [row] = rows
  if (!row || row.all === 0) return null
  const { openingMicros, debitMicros, creditMicros } = toSums(row)
  return { openingMicros, debitMicros, creditMicros, lines: row.lines }
}

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

/** What an entry was for, and who caused it. */
export type EntryLine = {
  readonly position: number
  /** Accounting time. */
  readonly at: string
  readonly type: string
  readonly accountId: string
  readonly orderId: string | null
  readonly customerId: string | null
  readonly depositId: string | null
  readonly reference: string | null
  readonly actor: string
  readonly correlationId: string
}

export type StatementLine = EntryLine & {
  readonly account: string
  /** Signed: a debit is above zero. */
  readonly amountMicros: bigint
  /** The account's balance right after. */
  readonly balanceMicros: bigint
  /** The other accounts of the entry in this book. */
  readonly against: readonly string[]
}

const entryColumns = `e.position, e.at, e.type, e.account_id as "accountId", e.order_id as "orderId",
  e.customer_id as "customerId", e.deposit_id as "depositId", e.reference, e.actor, e.correlation_id as "correlationId"`

/** A page of an account's lines, oldest first. `openingMicros` is its balance before the range. */
export const listLines = async (
  pool: pg.Pool,
  range: Range,
  filter: AccountFilter,
  page: { readonly openingMicros: bigint; readonly limit: number; readonly offset: number },
): Promise<readonly StatementLine[]> => {
  const { sql, values } = within(filter, 3)
  const given = [range.after, range.to, filter.book, ...values]
  const inRange = `from read.journal_postings where position > $1::bigint and position <= $2::bigint and ${sql}`
  const skipped = await pool.query<{ sum: string }>(
    `select coalesce(sum(amount_micros), 0) as sum from
       (select amount_micros ${inRange} order by position, leg limit $${given.length + 1}::bigint) before`,
    [...given, page.offset],
  )
  const { rows } = await pool.query<EntryLine & { account: string; amount: string; against: string[] }>(
    `select ${entryColumns}, a.account, p.amount_micros::text as amount,
       array(select other.account
             from read.journal_postings o join read.journal_accounts other on other.number = o.account_number
             where o.position = p.position and other.book = a.book and o.leg <> p.leg order by o.leg) as against
     from (select position, leg, account_number, amount_micros ${inRange}
           order by position, leg limit $${given.length + 1}::bigint offset $${given.length + 2}::bigint) p
     join read.journal_accounts a on a.number = p.account_number
     join read.journal_entries e using (position) order by p.position, p.leg`,
    [...given, page.limit, page.offset],
  )
  let balanceMicros = page.openingMicros + BigInt(skipped.rows[0]?.sum ?? 0)
  return rows.map(({ amount, ...line }) => {
    const amountMicros = BigInt(amount)
    balanceMicros += amountMicros
    return { ...line, amountMicros, balanceMicros }
  })
}

export type JournalPosting = {
  readonly book: string
  readonly account: string
  readonly amountMicros: bigint
}
export type JournalEntry = EntryLine & { readonly postings: readonly JournalPosting[] }

type PostingRow = { position: number; book: string; account: string; amount: string }

const withPostings = async (
  pool: pg.Pool,
  entries: readonly EntryLine[],
): Promise<readonly JournalEntry[]> => {
  const { rows } = await pool.query<PostingRow>(
    `select position, book, account, amount_micros::text as amount
     from read.journal_postings join read.journal_accounts on number = account_number
     where position = any ($1::bigint[]) order by position, leg`,
    [entries.map(({ position }) => position)],
  )
  const byPosition = Map.groupBy(rows, ({ position }) => position)
  return entries.map((entry) => ({
    ...entry,
    postings: (byPosition.get(entry.position) ?? []).map(({ book, account, amount }) => ({
      book,
      account,
      amountMicros: BigInt(amount),
    })),
  }))
}

/** What an order moved, in every book, oldest first. */
export const entriesOfOrder = async (
  pool: pg.Pool,
  orderId: string,
  to: number,
): Promise<readonly JournalEntry[]> => {
  const { rows } = await pool.query<EntryLine>(
    `select ${entryColumns} from read.journal_entries e
     where e.order_id = $1::text and e.position <= $2::bigint order by e.position`,
    [orderId, to],
  )
  return withPostings(pool, rows)
}

/** The entry of the event at a position, or null when it moved no money. */
export const entryAt = async (pool: pg.Pool, position: number): Promise<JournalEntry | null> => {
  const { rows } = await pool.query<EntryLine>(
    `select ${entryColumns} from read.journal_entries e where e.position = $1::bigint`,
    [position],
  )
  const [entry] = await withPostings(pool, rows)
  return entry ?? null
}

/** The accounting time of the last entry up to a position; null before the first. */
export const timeOfLastEntry = async (pool: pg.Pool, position: number): Promise<string | null> => {
  const { rows } = await pool.query<{ at: string }>(
    'select at from read.journal_entries where position <= $1::bigint order by position desc limit 1',
    [position],
  )
  return rows[0]?.at ?? null
}
