import type pg from 'pg'
import { type AccountFilter, legsOf, type Range } from './journal-sums.ts'

/** The purpose and the cause of an entry. */
export type EntryLine = {
  readonly position: number
  /** Accounting time. */
  readonly at: string
  readonly type: string
  /** Null for a line of a provider's statement: it is in no ledger. */
  readonly accountId: string | null
  readonly orderId: string | null
  readonly customerId: string | null
  readonly depositId: string | null
  readonly reference: string | null
  readonly actor: string
  readonly correlationId: string
}

export type StatementLine = EntryLine & {
  readonly account: string
  /** Signed: a debit is positive. */
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
  const { sql, values } = legsOf(filter, 3)
  const parameters = [range.after, range.to, filter.book, ...values]
  const inRange = `from read.journal_postings where position > $1::bigint and position <= $2::bigint and ${sql}`
  const skippedSum = await pool.query<{ sum: string }>(
    `select coalesce(sum(amount_micros), 0) as sum from
       (select amount_micros ${inRange} order by position, leg limit $${parameters.length + 1}::bigint) before`,
    [...parameters, page.offset],
  )
  const { rows } = await pool.query<EntryLine & { account: string; amount: string; against: string[] }>(
    `select ${entryColumns}, a.account, p.amount_micros::text as amount,
       array(select other.account
             from read.journal_postings o join read.journal_accounts other on other.number = o.account_number
             where o.position = p.position and other.book = a.book and o.leg <> p.leg order by o.leg) as against
     from (select position, leg, account_number, amount_micros ${inRange}
           order by position, leg limit $${parameters.length + 1}::bigint offset $${parameters.length + 2}::bigint) p
     join read.journal_accounts a on a.number = p.account_number
     join read.journal_entries e using (position) order by p.position, p.leg`,
    [...parameters, page.limit, page.offset],
  )
  let balanceMicros = page.openingMicros + BigInt(skippedSum.rows[0]?.sum ?? 0)
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

/** The entries of an order in every book, oldest first. */
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

/** The entry of the event at a position; null if it moved no money. */
export const entryAt = async (pool: pg.Pool, position: number): Promise<JournalEntry | null> => {
  const { rows } = await pool.query<EntryLine>(
    `select ${entryColumns} from read.journal_entries e where e.position = $1::bigint`,
    [position],
  )
  const [entry] = await withPostings(pool, rows)
  return entry ?? null
}
