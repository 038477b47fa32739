import type { RawBuilder } from 'kysely'
import { books } from '../../../projections/groups.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'
import { type Database, type Db, sql } from '../../platform/postgres/kysely.ts'
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

/**
 * The entries up to a moment: those up to a position of the log, and lines of statements with later positions that are
 * dated at or before `at`. Null for a position: what was posted later is not included.
 */
export type Cut = { readonly position: number; readonly at: string | null }

/** The entries up to `to` without those up to `from`. None has a position after `head`. */
export type Range = { readonly from: Cut; readonly to: Cut; readonly head: number }

/** All entries up to a cut. */
export const rangeUpTo = (to: Cut, head: number): Range => ({ from: { position: 0, at: null }, to, head })

/** SQL: whether the entry at a position is up to a cut. `position` is a qualified column. */
const isUpTo = ({ position, at }: Cut, { head }: Range, column: string): RawBuilder<boolean> =>
  at === null
    ? sql`${sql.ref(column)} <= ${position}::bigint`
    : sql`(${sql.ref(column)} <= ${position}::bigint or ${sql.ref(column)} <= ${head}::bigint and exists (
        select from read.journal_entries dated
         where dated.position = ${sql.ref(column)} and dated.happened_at is not null and dated.at <= ${at}::timestamptz))`

/** SQL: whether the entry at a position is in a range. */
const isIn = (range: Range, column: string): RawBuilder<boolean> =>
  sql`${isUpTo(range.to, range, column)} and not ${isUpTo(range.from, range, column)}`

/** Whether lines of statements after a position are dated at or before a time. */
export const isDatedBack = async (db: Db, position: number, at: string, head: number): Promise<boolean> =>
  (await db
    .selectFrom('read.journal_entries')
    .select('position')
    .where('happenedAt', 'is not', null)
    .where('position', '>', position)
    .where('position', '<=', head)
    .where('at', '<=', at)
    .limit(1)
    .executeTakeFirst()) !== undefined

/** One account; with `below` also the accounts below it. */
export type AccountFilter = { readonly book: string; readonly account: string; readonly below: boolean }

/**
 * The legs of an account. With `below`, `a:b` also has the legs of every account that begins with `a:b:`: `;` is the
 * character after `:`, so that the index is read as a range. The legs of one account are returned in log order by their
 * own index, without a sort.
 */
const legsOf = (db: Db, { book, account, below }: AccountFilter) => {
  const legs = db.selectFrom('read.journal_postings as p')
  const numbers = db.selectFrom('read.journal_accounts').select('number').where('book', '=', book)
  if (!below) return legs.where('accountNumber', '=', numbers.where('account', '=', account))
  const isBelow = sql<boolean>`(account = ${account} or account >= ${`${account}:`} and account < ${`${account};`})`
  return legs.where('accountNumber', 'in', numbers.where(isBelow))
}

/** The legs of an account in the range. */
const legsIn = (db: Db, range: Range, filter: AccountFilter) =>
  legsOf(db, filter)
    .where(isIn(range, 'p.position'))
    .select(['p.position', 'leg', 'accountNumber', 'amountMicros'])

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
  /** The balance as of the range's start. */
  readonly openingMicros: bigint
  /** Debits and credits in the range, both at least 0. */
  readonly debitMicros: bigint
  readonly creditMicros: bigint
}

/**
 * The legs up to the end of a range, with `isBefore`: whether they are before it. Without the offset, Postgres would
 * compute that again for each sum.
 */
const legsUpTo = (legs: ReturnType<typeof legsOf>, range: Range) =>
  legs
    .where(isUpTo(range.to, range, 'p.position'))
    .select(['p.accountNumber', 'p.amountMicros'])
    .select(isUpTo(range.from, range, 'p.position').as('isBefore'))
    .offset(0)
    .as('leg')

/** SQL: the sums of `legsUpTo`. */
const sums = [
  sql<string>`coalesce(sum(amount_micros) filter (where is_before), 0)`.as('openingMicros'),
  sql<string>`coalesce(sum(amount_micros) filter (where not is_before and amount_micros > 0), 0)`.as(
    'debitMicros',
  ),
  sql<string>`coalesce(-sum(amount_micros) filter (where not is_before and amount_micros < 0), 0)`.as(
    'creditMicros',
  ),
] as const

/** The sums of each account that moved up to the end of a range. */
const sumsByAccount = (db: Db, legs: ReturnType<typeof legsOf>, range: Range) =>
  db
    .selectFrom(legsUpTo(legs, range))
    .select('accountNumber')
    .select(sums)
    .groupBy('accountNumber')
    .as('each')

type SumTexts = {
  readonly openingMicros: string
  readonly debitMicros: string
  readonly creditMicros: string
}

const toSums = <Row extends SumTexts>({ openingMicros, debitMicros, creditMicros, ...row }: Row) => ({
  ...row,
  openingMicros: BigInt(openingMicros),
  debitMicros: BigInt(debitMicros),
  creditMicros: BigInt(creditMicros),
})

/** The balance at the end of the range. */
export const closingMicros = ({
  openingMicros,
  debitMicros,
  creditMicros,
}: Omit<AccountSums, 'book' | 'account' | 'gateway'>) => openingMicros + debitMicros - creditMicros

/** Every account that moved up to the end of the range, by book and name; `depth` shortens names to this many parts. */
export const sumAccounts = async (
  db: Db,
  range: Range,
  { book, depth }: { readonly book: string | null; readonly depth: number | null },
): Promise<readonly AccountSums[]> => {
  const account =
    depth === null
      ? sql<string>`account`
      : sql<string>`array_to_string((string_to_array(account, ':'))[1:${sql.lit(Math.trunc(depth))}], ':')`
  const accounts = db.selectFrom('read.journal_accounts')
  let legs = db.selectFrom('read.journal_postings as p')
  if (book !== null)
    legs = legs.where('accountNumber', 'in', accounts.select('number').where('book', '=', book))
  const rows = await db
    .selectFrom(sumsByAccount(db, legs, range))
    .innerJoin('read.journal_accounts as a', 'a.number', 'each.accountNumber')
    .select(['book', account.as('account')])
    .select(({ fn }) => [
      fn.sum<string>('openingMicros').as('openingMicros'),
      fn.sum<string>('debitMicros').as('debitMicros'),
      fn.sum<string>('creditMicros').as('creditMicros'),
    ])
    .groupBy(['book', account])
    .orderBy('book')
    .orderBy(account)
    .execute()
  return rows.map(toSums)
}

/** The account itself and every account below it that moved up to the end of the range. */
export const sumBelow = async (
  db: Db,
  range: Range,
  account: { readonly book: string; readonly account: string },
): Promise<readonly AccountSums[]> => {
  const legs = legsOf(db, { ...account, below: true })
  const rows = await db
    .selectFrom(sumsByAccount(db, legs, range))
    .innerJoin('read.journal_accounts as a', 'a.number', 'each.accountNumber')
    .select(['book', 'account', 'openingMicros', 'debitMicros', 'creditMicros'])
    .orderBy('account')
    .execute()
  return rows.map(toSums)
}

export type AccountTotals = Omit<AccountSums, 'book' | 'account' | 'gateway'> & {
  /** Legs in the range. */
  readonly lines: number
}

/** The sums of an account; null if no entry up to the end of the range has it. */
export const totalsOf = async (
  db: Db,
  range: Range,
  filter: AccountFilter,
): Promise<AccountTotals | null> => {
  const { all, ...totals } = await db
    .selectFrom(legsUpTo(legsOf(db, filter), range))
    .select(({ fn }) => [
      fn.countAll<number>().as('all'),
      fn.countAll<number>().filterWhere('isBefore', '=', false).as('lines'),
    ])
    .select(sums)
    .executeTakeFirstOrThrow()
  return all === 0 ? null : toSums(totals)
}

/** The movement of an account on one day of a time zone; a debit is positive. */
export type DaySum = { readonly day: string; readonly account: string; readonly amountMicros: bigint }

/**
 * The movements of the account and those below it, by day and account. `exceptStatements`: fees and payouts do not
 * count.
 */
export const sumByDay = async (
  db: Db,
  range: Range,
  {
    exceptStatements = false,
    ...account
  }: { readonly book: string; readonly account: string; readonly exceptStatements?: boolean },
  zone: string,
): Promise<readonly DaySum[]> => {
  const legs = db
    .selectFrom(legsIn(db, range, { ...account, below: true }).as('p'))
    .innerJoin('read.journal_entries as e', 'e.position', 'p.position')
  const rows = await (exceptStatements ? legs.where('e.happenedAt', 'is', null) : legs)
    .innerJoin('read.journal_accounts as a', 'a.number', 'p.accountNumber')
    .select([sql<string>`to_char(e.at at time zone ${zone}, 'YYYY-MM-DD')`.as('day'), 'a.account'])
    .select(({ fn }) => fn.sum<string>('p.amountMicros').as('amount'))
    .groupBy(['day', 'a.account'])
    .orderBy('day')
    .orderBy('a.account')
    .execute()
  return rows.map(({ day, account: name, amount }) => ({ day, account: name, amountMicros: BigInt(amount) }))
}

/** The purpose and the cause of an entry. */
export type EntryLine = Database['read.journal_entries']

export type StatementLine = EntryLine & {
  readonly account: string
  /** Signed: a debit is positive. */
  readonly amountMicros: bigint
  /** The account's balance right after. */
  readonly balanceMicros: bigint
  /** The other accounts of the entry in this book. */
  readonly against: readonly string[]
}

/**
 * Lines of an account in log order: the oldest first from `offset` on or after a position, or the newest first before a
 * position (null: all).
 */
export type LinesPage = { readonly limit: number } & (
  | { readonly offset: number }
  | { readonly after: number }
  | { readonly before: number | null }
)

/** A page of an account's lines. `totals` are those of the range. */
export const listLines = async (
  db: Db,
  range: Range,
  filter: AccountFilter,
  totals: AccountTotals,
  page: LinesPage,
): Promise<readonly StatementLine[]> => {
  const newestFirst = 'before' in page
  const order = newestFirst ? 'desc' : 'asc'
  const offset = 'offset' in page ? page.offset : 0
  const all = legsIn(db, range, filter).orderBy('p.position', order).orderBy('leg', order)
  const [legs, others] =
    'after' in page
      ? [all.where('p.position', '>', page.after), all.where('p.position', '<=', page.after)]
      : 'before' in page && page.before !== null
        ? [all.where('p.position', '<', page.before), all.where('p.position', '>=', page.before)]
        : [all, all.limit(offset)] // with the newest first, none
  const skipped = await db
    .selectFrom(others.as('skipped'))
    .select(sql<string>`coalesce(sum(amount_micros), 0)`.as('micros'))
    .executeTakeFirstOrThrow()
  const rows = await db
    .selectFrom(legs.limit(page.limit).offset(offset).as('p'))
    .innerJoin('read.journal_accounts as a', 'a.number', 'p.accountNumber')
    .innerJoin('read.journal_entries as e', 'e.position', 'p.position')
    .selectAll('e')
    .select(['a.account', 'p.amountMicros'])
    .select(
      sql<readonly string[]>`array(
        select other.account
          from read.journal_postings o join read.journal_accounts other on other.number = o.account_number
         where o.position = p.position and other.book = a.book and o.leg <> p.leg order by o.leg)`.as(
        'against',
      ),
    )
    .orderBy('p.position', order)
    .orderBy('p.leg', order)
    .execute()
  const skippedMicros = BigInt(skipped.micros)
  let balanceMicros = newestFirst
    ? closingMicros(totals) - skippedMicros
    : totals.openingMicros + skippedMicros
  return rows.map((line) => {
    const amountMicros = BigInt(line.amountMicros)
    if (!newestFirst) balanceMicros += amountMicros
    const afterMicros = balanceMicros
    if (newestFirst) balanceMicros -= amountMicros
    return { ...line, amountMicros, balanceMicros: afterMicros }
  })
}

export type JournalPosting = {
  readonly book: string
  readonly account: string
  readonly amountMicros: bigint
}
export type JournalEntry = EntryLine & { readonly postings: readonly JournalPosting[] }

const withPostings = async (db: Db, entries: readonly EntryLine[]): Promise<readonly JournalEntry[]> => {
  const positions = entries.map(({ position }) => position)
  const rows = await db
    .selectFrom('read.journal_postings as p')
    .innerJoin('read.journal_accounts as a', 'a.number', 'p.accountNumber')
    .select(['p.position', 'a.book', 'a.account', 'p.amountMicros'])
    .where(sql<boolean>`p.position = any (${positions}::bigint[])`)
    .orderBy('p.position')
    .orderBy('p.leg')
    .execute()
  const byPosition = Map.groupBy(rows, ({ position }) => position)
  return entries.map((entry) => ({
    ...entry,
    postings: (byPosition.get(entry.position) ?? []).map(({ book, account, amountMicros }) => ({
      book,
      account,
      amountMicros: BigInt(amountMicros),
    })),
  }))
}

/**
 * Whether a person of the service made the entry, or a reseller its own adjustment of a customer. The worker finishes
 * movements by hand that a crash interrupted.
 */
const isByHand = sql<boolean>`(actor like 'operator:%' or actor like 'session:stf@_%' escape '@'
  or actor = 'system:open-movements' or type = 'CustomerAdjusted' and actor not like 'system:%')`

/** The entries by hand in the range, oldest first, with their number. `book`: only with postings in it. */
export const entriesByHand = async (
  db: Db,
  range: Range,
  book: string | null,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly total: number; readonly entries: readonly JournalEntry[] }> => {
  let found = db.selectFrom('read.journal_entries as e').where(isIn(range, 'e.position')).where(isByHand)
  if (book !== null)
    found = found.where(
      sql<boolean>`exists (select from read.journal_postings p join read.journal_accounts a on a.number = p.account_number
        where p.position = e.position and a.book = ${book})`,
    )
  const { total } = await found
    .select(({ fn }) => fn.countAll<number>().as('total'))
    .executeTakeFirstOrThrow()
  const rows = await found.selectAll().orderBy('position').limit(page.limit).offset(page.offset).execute()
  return { total, entries: await withPostings(db, rows) }
}

/** The entries of an order in every book, oldest first. */
export const entriesOfOrder = async (
  db: Db,
  orderId: string,
  to: number,
): Promise<readonly JournalEntry[]> => {
  const entries = db.selectFrom('read.journal_entries').selectAll().where('orderId', '=', orderId)
  return withPostings(db, await entries.where('position', '<=', to).orderBy('position').execute())
}

/** The entry of the event at a position; null if it moved no money. */
export const entryAt = async (db: Db, position: number): Promise<JournalEntry | null> => {
  const entries = db.selectFrom('read.journal_entries').selectAll().where('position', '=', position)
  const [entry] = await withPostings(db, await entries.execute())
  return entry ?? null
}
