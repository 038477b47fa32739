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
