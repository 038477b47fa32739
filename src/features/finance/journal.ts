import type pg from 'pg'
import { books } from '../../../projections/groups.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import { ReadsBehind } from '../../platform/projections/read-your-writes.ts'

/** Waits until the journal has passed the log's head, and returns that position. @throws ReadsBehind */
export type JournalHead = () => Promise<number>

/** Concurrent calls share a query for the log's head. */
export const createJournalHead = ({
  log,
  progress,
  timeoutMs = 2000,
}: {
  readonly log: Pick<EventLog, 'head'>
  readonly progress: Pick<Progress, 'reached'>
  /** The longest wait for the journal, milliseconds; default 2,000. */
  readonly timeoutMs?: number | undefined
}): JournalHead => {
  const headOf = createBatchLoader<'log', number>(async () => new Map([['log', await log.head()]]))
  return async () => {
    const position = (await headOf('log')) ?? 0
    if (await progress.reached(books.name, position, timeoutMs)) return position
    throw new ReadsBehind('the journal has not come as far as the log; try again')
  }
}

/** Positions of the log after `after`, up to and including `to`. */
export type Range = { readonly after: number; readonly to: number }

/** One account; with `below` also the accounts below it. */
export type AccountFilter = { readonly book: string; readonly account: string; readonly below: boolean }

/**
 * The SQL condition for an account's rows of `read.journal_postings`, and its values. With `below`, `a:b` also matches
 * every account that begins with `a:b:`: `;` is the character after `:`, so that the index is read as a range. The legs
 * of one account are returned in log order by their own index, without a sort.
 * @param first the number of the statement's parameter for the book; the other values follow it
 */
export const legsOf = (
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

/*
 * Journal rows are only added and never changed. An answer up to a position that the journal has passed is therefore
 * constant, even if it takes several statements. Amounts are micro-dollars: debits are positive, credits negative. Sums
 * are bigint, because over many accounts they exceed the safe integers.
 */

export type AccountSums = {
  readonly book: string
  readonly account: string
  /** The readable name of a reseller's gateway (`GatewayName`). */
  readonly gateway?: string | null
  /** The balance as of `after`. */
  readonly openingMicros: bigint
  /** Debits and credits in the range, both at least 0. */
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
}: Omit<AccountSums, 'book' | 'account' | 'gateway'>) => openingMicros + debitMicros - creditMicros

/** Every account that moved up to the end of the range, by book and name; `depth` shortens names to this many parts. */
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

/** The account itself and every account below it that moved up to the end of the range. */
export const sumBelow = async (
  pool: pg.Pool,
  range: Range,
  account: { readonly book: string; readonly account: string },
): Promise<readonly AccountSums[]> => {
  const { sql, values } = legsOf({ ...account, below: true }, 3)
  const { rows } = await pool.query<SumRow>(
    `select book, account, opening, debit, credit from (
       select account_number, ${sums} from read.journal_postings
       where position <= $2::bigint and ${sql} group by account_number
     ) each join read.journal_accounts a on a.number = each.account_number order by account`,
    [range.after, range.to, account.book, ...values],
  )
  return rows.map(toSums)
}

export type AccountTotals = Omit<AccountSums, 'book' | 'account' | 'gateway'> & {
  /** Legs in the range. */
  readonly lines: number
}

/** The sums of an account; null if no entry up to the end of the range has it. */
export const totalsOf = async (
  pool: pg.Pool,
  range: Range,
  filter: AccountFilter,
): Promise<AccountTotals | null> => {
  const { sql, values } = legsOf(filter, 3)
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

/** The movement of an account on one day (UTC); a debit is positive. */
export type DaySum = { readonly day: string; readonly account: string; readonly amountMicros: bigint }

/** The movements of the account and those below it, by day and account. */
export const sumByDay = async (
  pool: pg.Pool,
  range: Range,
  account: { readonly book: string; readonly account: string },
): Promise<readonly DaySum[]> => {
  const { sql, values } = legsOf({ ...account, below: true }, 3)
  const { rows } = await pool.query<{ day: string; account: string; amount: string }>(
    `select day, account, sum(amount) as amount from (
       select to_char(e.at at time zone 'UTC', 'YYYY-MM-DD') as day, p.account_number, p.amount_micros as amount
         from (select position, account_number, amount_micros from read.journal_postings
                where position > $1::bigint and position <= $2::bigint and ${sql}) p
         join read.journal_entries e using (position)
     ) each join read.journal_accounts a on a.number = each.account_number
     group by day, account order by day, account`,
    [range.after, range.to, account.book, ...values],
  )
  return rows.map(({ day, account: name, amount }) => ({ day, account: name, amountMicros: BigInt(amount) }))
}

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
