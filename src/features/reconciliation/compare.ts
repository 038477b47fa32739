import type pg from 'pg'
import { bankAccount } from '../../domain/ledger/postings.ts'
import type { StatementBooking } from '../../domain/ledger/statement-lines.ts'
import type { Coverage, StatementLine } from './statement-format.ts'
import type { LineKind } from './statement-words.ts'

/** The journal account and the period that a statement is compared with. */
export type ComparisonScope = {
  readonly book: string
  /** One account of a gateway; or those of the bank. */
  readonly accounts: readonly string[]
  /** The bank has no ids of payments: its lines are matched by their amounts. */
  readonly isBank: boolean
  /** Whether the fees and payouts of the statement enter the books: those of a gateway of the service. */
  readonly isPosted: boolean
  /** IANA name of the accounting time zone. */
  readonly zone: string
  /** Positions of the log: entries after `after`, up to and including `to`. */
  readonly range: { readonly after: number; readonly to: number }
  /** The last position in the journal. */
  readonly head: number
  /** The same period for the statement's lines, ISO 8601 UTC: from `from` to before `before`; null is open. */
  readonly from: string | null
  readonly before: string | null
}

/**
 * The result for a line or an entry. `matched` agrees. `open` is not final at the provider. `own` is a fee or a payout,
 * which only the provider makes: `bookedLines` has its entry. `outside` is not in the compared period. The others are
 * differences: `not_final` is booked, but the provider does not count it or has not finished it.
 */
export type LineClass =
  | 'matched'
  | 'own'
  | 'open'
  | 'outside'
  | 'missing_here'
  | 'not_final'
  | 'other_amount'
  | 'duplicate'
  | 'other_currency'
/**
 * Of a line's fee or payout: `not_booked`, the books do not have it; `other_fee`, they have another one; `other_time`,
 * either the line or its entry is outside the compared period.
 */
export type DifferenceClass =
  | Exclude<LineClass, 'matched' | 'own' | 'open' | 'outside'>
  | 'missing_there'
  | 'not_booked'
  | 'other_fee'
  | 'other_time'

export const differenceClasses: readonly DifferenceClass[] = [
  'missing_here',
  'missing_there',
  'not_final',
  'other_amount',
  'not_booked',
  'other_fee',
  'other_time',
  'duplicate',
  'other_currency',
]

/** The lines of a class, kind and currency. Sums are micro-units. */
export type ClassSum = {
  readonly class: LineClass
  readonly kind: LineKind
  readonly currency: string
  readonly lines: number
  readonly amountMicros: bigint
  readonly feeMicros: bigint
  /** Sum of the matched entries; 0 without. */
  readonly hereMicros: bigint
}

/** A statement line, a journal entry, or a pair of them that differ. */
export type Difference = {
  readonly class: DifferenceClass
  readonly file: string | null
  readonly line: number | null
  readonly externalId: string | null
  readonly kind: LineKind | null
  readonly word: string | null
  readonly currency: string | null
  readonly thereMicros: bigint | null
  readonly thereAt: string | null
  readonly position: number | null
  readonly reference: string | null
  readonly depositId: string | null
  readonly accountId: string | null
  readonly hereMicros: bigint | null
  readonly hereAt: string | null
}

/** A line that only the provider makes: a payout, its reversal, or a charge of its own. */
export type OwnLine = {
  readonly file: string
  readonly line: number
  readonly externalId: string | null
  readonly kind: LineKind
  readonly word: string
  readonly at: string
  readonly currency: string
  readonly amountMicros: bigint
  readonly feeMicros: bigint
}

/** Lines that enter the books only by posting: fees and payouts. Sums are micro-dollars. */
export type Postable = {
  readonly lines: number
  readonly feeMicros: bigint
  readonly payoutMicros: bigint
  /** Lines that the books have, and their effect on the account, including lines with other amounts. */
  readonly posted: number
  readonly postedMicros: bigint
  /** Fees of lines that match no payment of the books: they are not booked. */
  readonly unmatched: number
  readonly unmatchedMicros: bigint
}

/**
 * A booked line of the files, or its correction, that the books do not date by the statement (`dateOfLine`): its month
 * was closed before, or the statement's time was in the future or before the first event of the log.
 */
export type OtherTime = {
  readonly reference: string
  readonly position: number
  readonly amountMicros: bigint
  /** The time in the statement. */
  readonly thereAt: string
  readonly hereAt: string
  /** The month in which it is booked, `2026-11`. */
  readonly month: string
  readonly why: 'month_closed' | 'in_future' | 'before_log'
}

const tables = `
  create temporary table statement_lines (
    n bigint primary key, file text not null, line bigint not null, kind text not null, word text not null,
    external_id text, key text, at timestamptz not null, currency text not null, amount bigint not null,
    unit bigint not null, fee bigint not null, coin text, coins numeric, final boolean not null)`

/** Amounts are micro-units that fit Postgres's bigint: larger ones are refused when the file is read. */
const columnsOf = (lines: readonly StatementLine[], file: string, from: number) => [
  lines.map((_, at) => from + at),
  lines.map(() => file),
  lines.map(({ line }) => line),
  lines.map(({ kind }) => kind),
  lines.map(({ word }) => word),
  lines.map(({ externalId }) => externalId),
  lines.map(({ key }) => key),
  lines.map(({ at }) => at),
  lines.map(({ currency }) => currency),
  lines.map(({ amountMicros }) => String(amountMicros)),
  lines.map(({ unitMicros }) => String(unitMicros)),
  lines.map(({ feeMicros }) => String(feeMicros)),
  lines.map(({ coins }) => coins?.currency ?? null),
  lines.map(({ coins }) => coins?.amount ?? null),
  lines.map(({ final }) => final),
]

const insert = `
  insert into statement_lines select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[],
    $6::text[], $7::text[], $8::timestamptz[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[],
    $14::numeric[], $15::boolean[])`

/** SQL: the provider and the id of a refund or a dispute, without the part that names one of its movements. */
const reversalOf = (reference: string): string => `substring(${reference} from '^\\S+ \\S+')`

/**
 * The account's entries that are in the range or that a line refers to. Their keys are the reference and, for a credit,
 * the deposit. Entries that were posted from statements are not included.
 */
const entries = `
  create temporary table account_entries as
  select p.position, p.leg, p.amount_micros as amount, e.at, e.type, e.reference, e.deposit_id, e.account_id,
         p.position > $3::bigint and p.position <= $4::bigint as within
    from read.journal_postings p
    join read.journal_entries e using (position)
   where p.account_number in (select number from read.journal_accounts where book = $1::text and account = any ($2::text[]))
     and p.position <= $5::bigint
     and e.type in ('WalletCredited', 'WalletAdjusted', 'CustomerCredited', 'CustomerAdjusted')
     and (p.position > $3::bigint and p.position <= $4::bigint
          or 'payment:' || e.reference in (select key from statement_lines)
          or 'payment:' || ${reversalOf('e.reference')} in (select key from statement_lines)
          or 'deposit:' || e.deposit_id in (select key from statement_lines))`

/** How long before its line on the bank's statement a payout may have left the provider. */
const bankDelay = '10 days'

/**
 * The entries of the bank in the period, by the times of payouts, and those shortly before that a line may have. A fee
 * or a payout is one entry with its corrections, and none if it was corrected to 0.
 */
const bankEntries = `
  create temporary table account_entries as
  with legs as (
    select p.position, p.leg, p.amount_micros as amount, coalesce(e.happened_at, e.at) as at, e.type, e.reference,
           e.deposit_id, e.account_id,
           case when e.happened_at is null then p.position
                else min(p.position) over (partition by e.happened_at is null, g.account_number, e.reference) end as booking
      from read.journal_postings p
      join read.journal_entries e using (position)
      left join lateral (
        select min(o.account_number) as account_number from read.journal_postings o
          join read.journal_accounts a on a.number = o.account_number
         where e.happened_at is not null and o.position = p.position and a.account like 'assets:gateway:%') g on true
     where p.account_number in (select number from read.journal_accounts where book = $1::text and account = any ($2::text[]))
       and p.position <= $5::bigint
  ), whole as (
    select booking as position, min(leg) as leg, sum(amount)::bigint as amount, min(at) as at, min(type) as type,
           min(reference) as reference, min(deposit_id) as deposit_id, min(account_id) as account_id
      from legs group by booking having sum(amount) <> 0
  )
  select w.*, d.within
    from whole w
   cross join lateral (
     select coalesce(w.at >= $3::timestamptz, true) and coalesce(w.at < $4::timestamptz, true) as within) d
   where d.within or w.at < $3::timestamptz and w.at >= $3::timestamptz - interval '${bankDelay}'`

/**
 * Fees and payouts that the account has from statements, with their corrections. `position` is that of the booking,
 * `payout` the part that went to the bank.
 */
const bookedLines = `
  create temporary table booked_lines as
  select e.reference, min(p.position) as position, sum(p.amount_micros)::bigint as amount,
         sum(coalesce(b.amount, 0))::bigint as payout, min(e.happened_at) as happened_at, min(e.at) as at,
         coalesce(min(e.happened_at) >= $4::timestamptz, true) and coalesce(min(e.happened_at) < $5::timestamptz, true) as within,
         case when bool_or(e.kind like 'payout%') then 'payout' else 'fee' end as kind
    from read.journal_postings p
    join read.journal_entries e using (position)
    left join lateral (
      select sum(o.amount_micros) as amount from read.journal_postings o
       where o.position = p.position and o.account_number in (
         select number from read.journal_accounts where book = $1::text and account = '${bankAccount}')) b on true
   where p.account_number in (select number from read.journal_accounts where book = $1::text and account = any ($2::text[]))
     and p.position <= $3::bigint and e.happened_at is not null
   group by e.reference`

/**
 * Lines and entries with the same key and side are paired in order of their amounts, final lines first; by deposits
 * only those that no other key pairs. A line that repeats an earlier line is not paired, and no entry is paired twice.
 * At the bank only the amounts count, whatever the kinds of the lines are.
 */
const classes = `
  create temporary table classified as
  with lines as (
    select l.*, coalesce(l.at >= $1::timestamptz, true) and coalesce(l.at < $2::timestamptz, true) as within,
           l.external_id is not null
             and row_number() over (partition by l.external_id, l.kind order by l.n) > 1 as again
      from statement_lines l
  ), sided as (
    select n, key, amount, final,
           case when $3::boolean then 'any' when kind = 'payment' then 'credited' when kind in ('dispute', 'refund') then 'taken'
                when kind in ('dispute_reversal', 'refund_reversal') then 'returned' end as side
      from lines where key is not null and not again and currency = 'usd'
  ), keyed as (
    select n, key, side, row_number() over (partition by key, side order by final desc, amount, n) as rank
      from sided where side is not null
  ), sided_entries as (
    select position, leg, amount, reference, deposit_id, within,
           case when $3::boolean then 'any'
                when type in ('WalletCredited', 'CustomerCredited') then 'credited'
                when amount < 0 then 'taken' else 'returned' end as side
      from account_entries
  ), entry_keys as (
    select position, leg, amount, within, side, 'payment:' || reference as key
      from sided_entries where reference is not null
    union all
    select position, leg, amount, within, 'any', 'amount:' || amount from sided_entries
    union all
    select position, leg, amount, within, side, 'payment:' || ${reversalOf('reference')} from sided_entries
     where side <> 'credited' and reference <> ${reversalOf('reference')}
    union all
    select position, leg, amount, within, side, 'deposit:' || deposit_id from sided_entries
     where deposit_id is not null and side in ('credited', 'any')
  ), ranked as (
    select position, leg, key, side, row_number() over (partition by key, side order by amount, within desc, position) as rank
      from entry_keys where key not like 'deposit:%'
  ), first_pairs as (
    select distinct on (r.position, r.leg) k.n, r.position, r.leg
      from keyed k join ranked r using (key, side, rank) order by r.position, r.leg, k.n
  ), ranked_deposits as (
    select position, leg, key, side, row_number() over (partition by key, side order by amount, within desc, position) as rank
      from entry_keys e
     where key like 'deposit:%'
       and not exists (select from first_pairs f where f.position = e.position and f.leg = e.leg)
  ), pairs as (
    select n, position, leg from first_pairs
    union all
    select k.n, r.position, r.leg from keyed k join ranked_deposits r using (key, side, rank)
  )
  select l.*, e.position, e.leg, e.amount as here, e.at as here_at, e.reference, e.deposit_id, e.account_id,
         case
           when not l.within and not coalesce(e.within, false) then 'outside'
           when l.again then 'duplicate'
           when l.currency <> 'usd' then 'other_currency'
           when l.kind in ('fee', 'payout', 'payout_reversal') and not $3::boolean then 'own'
           when e.position is null and not l.final then 'open'
           when e.position is null then 'missing_here'
           when not l.final then 'not_final'
           when e.amount = l.amount or 2 * abs(e.amount - l.amount) <= l.unit and l.unit > 1
             or e.amount / l.unit * l.unit = l.amount then 'matched'
           else 'other_amount'
         end as class
    from lines l
    left join pairs p using (n)
    left join account_entries e on e.position = p.position and e.leg = p.leg`

/**
 * What the books must have of the lines: their fees and payouts, which may be 0. Lines of one id are booked together.
 * `n` is the first of them.
 */
const postable = `
  create temporary table postable as
  select min(n) as n, external_id, sum(fee - case kind when 'fee' then amount else 0 end)::bigint as fee,
         sum(case when kind in ('payout', 'payout_reversal') then -amount else 0 end)::bigint as payout
    from classified
   where class in ('matched', 'own', 'other_amount') and currency = 'usd' and $1::boolean
   group by external_id, case when external_id is null then n end`

/** SQL: the line has a fee or a payout to book. */
const isToBook = '(l.fee <> 0 or l.payout <> 0)'

const postedOf = `
  select count(*) filter (where ${isToBook}) as lines, coalesce(sum(l.fee), 0)::text as fee,
         coalesce(sum(l.payout), 0)::text as payout, count(b.reference) filter (where ${isToBook}) as posted,
         coalesce(sum(b.amount), 0)::text as moved
    from postable l
    left join booked_lines b on b.reference = l.external_id`

/** SQL: entries of the lines, with corrections, that are not dated by the statement. */
const otherTimes = `
  from read.journal_entries e
  join read.journal_postings p using (position)
 where p.account_number in (select number from read.journal_accounts where book = $1::text and account = any ($2::text[]))
   and p.position <= $3::bigint and e.happened_at is not null and e.happened_at <> e.at
   and e.reference in (select external_id from postable where fee <> 0 or payout <> 0)`

/** SQL: lines that are to be booked, and are not yet. */
const newLines = `
  from postable l
  join classified c using (n)
  left join booked_lines b on b.reference = l.external_id
 where b.reference is null and ${isToBook}`

const unmatchedFees = `
  select count(*) as lines, coalesce(sum(fee), 0)::text as fee from classified
   where class = 'missing_here' and currency = 'usd' and fee <> 0`

/** Lines to post in one read. */
const pageSize = 1_000

type SumRow = {
  class: LineClass
  kind: LineKind
  currency: string
  lines: number
  amount: string
  fee: string
  here: string
}
type DifferenceRow = Omit<Difference, 'thereMicros' | 'hereMicros'> & {
  there: string | null
  here: string | null
}

type BookingDifference = Extract<DifferenceClass, 'not_booked' | 'other_fee' | 'other_time'>

const differenceColumns = `class, file, line, external_id as "externalId", kind, word, currency, amount::text as there,
  at as "thereAt", position, reference, deposit_id as "depositId", account_id as "accountId", here::text as here,
  here_at as "hereAt"`

/** SQL: the lines that a booked fee or payout `b` may belong to, in the period or outside. */
const linesOf = `
  select from classified s where s.external_id = b.reference and s.class in ('matched', 'own', 'other_amount', 'outside')`

/** SQL: entries in the period that no line has: payments, and the fees and payouts that the files would have. */
const missingThere = `
  from (
    select position, leg, amount, reference, deposit_id, account_id, at, null as kind
      from account_entries e
     where within and 'payments' = any ($1::text[])
       and not exists (select from classified c where c.position = e.position and c.leg = e.leg)
    union all
    select position, 0, amount, reference, null, null, happened_at, kind from booked_lines b
     where (amount <> 0 or payout <> 0) and kind || 's' = any ($1::text[]) and within and not exists (${linesOf})
  ) missing`

/** SQL: lines that are booked with another fee or payout. */
const otherFee = `
  from postable l
  join classified c using (n)
  join booked_lines b on b.reference = l.external_id
 where b.amount <> -(l.fee + l.payout) or b.payout <> l.payout`

/** SQL: booked fees and payouts, or their lines, of which the other one is outside the period. */
const otherTime = `
  from booked_lines b
  join lateral (select min(n) as n from classified s where s.external_id = b.reference) first on true
  join classified c using (n)
 where $1::boolean and (b.amount <> 0 or b.payout <> 0)
   and exists (${linesOf} and s.within <> b.within) and not exists (${linesOf} and s.within = b.within)`

/** A fee or payout of a line, and its entry. */
const lineAndEntry = `c.file, c.line, c.external_id as "externalId", c.word, c.currency, c.at as "thereAt",
  c.deposit_id as "depositId", c.account_id as "accountId"`
const entryOfLine = 'b.position, b.reference, b.amount::text as here, b.happened_at as "hereAt"'
const netOfLine = '(-(l.fee + l.payout))::text as there'

/** The parts of a query for the differences of a class that `classified` does not have. */
const bookingDifferences = {
  not_booked: {
    columns: `case when l.payout = 0 then 'fee' else c.kind end as kind, ${lineAndEntry}, ${netOfLine}, null::bigint as position, null as reference, null as here,
      null::timestamptz as "hereAt"`,
    from: newLines,
  },
  other_fee: { columns: `b.kind, ${lineAndEntry}, ${netOfLine}, ${entryOfLine}`, from: otherFee },
  other_time: {
    columns: `b.kind, ${lineAndEntry}, ${entryOfLine},
      (case when c.kind in ('fee', 'payout', 'payout_reversal') then c.amount else 0 end - c.fee)::text as there`,
    from: otherTime,
  },
} as const

/**
 * The balance of the account at a time by the dates of the statement: entries up to it; fees and payouts by their times
 * in the statement; payments that one side has before the time and the other after it, by the times of their lines.
 */
const balanceHere = `
  select (
    coalesce((select sum(p.amount_micros) from read.journal_postings p join read.journal_entries e using (position)
      where p.account_number in (select number from read.journal_accounts where book = $1::text and account = any ($2::text[]))
        and p.position <= $3::bigint and e.happened_at is null), 0)
    + coalesce((select sum(amount) from booked_lines where coalesce(happened_at < $4::timestamptz, true)), 0)
    + coalesce((select sum(case when at < $4::timestamptz and here_at >= $4::timestamptz then here
                                when at >= $4::timestamptz and here_at < $4::timestamptz then -here else 0 end)
        from classified where class in ('matched', 'other_amount', 'outside')), 0)
  )::text as micros`

/** Compares statements with the journal, in temporary tables, because a file may be larger than memory. */
export const createComparison = async (client: pg.ClientBase) => {
  await client.query(tables)
  let count = 0

  return {
    async add(file: string, lines: readonly StatementLine[]): Promise<void> {
      await client.query(insert, columnsOf(lines, file, count))
      count += lines.length
    },

    /** Call once, after all lines were added. */
    async compare(scope: ComparisonScope): Promise<void> {
      const { book, accounts, isBank, isPosted, range, head, from, before } = scope
      await client.query('analyze statement_lines')
      await client.query(bookedLines, [book, accounts, head, from, before])
      if (isBank) await client.query(bankEntries, [book, accounts, from, before, head])
      else await client.query(entries, [book, accounts, range.after, range.to, head])
      await client.query(classes, [from, before, isBank])
      await client.query('create index on classified (position, leg)')
      await client.query('create index on classified (external_id)')
      await client.query(postable, [isPosted])
    },

    async sums(): Promise<readonly ClassSum[]> {
      const { rows } = await client.query<SumRow>(
        `select class, kind, currency, count(*) as lines, sum(amount)::text as amount, sum(fee)::text as fee,
                coalesce(sum(here), 0)::text as here
           from classified group by class, kind, currency order by class, kind, currency`,
      )
      return rows.map(({ amount, fee, here, ...sum }) => ({
        ...sum,
        amountMicros: BigInt(amount),
        feeMicros: BigInt(fee),
        hereMicros: BigInt(here),
      }))
    },

    /** Exact sums of coin payments by coin, of final lines in the period, whether they agree or not. */
    async coins(): Promise<
      readonly { readonly currency: string; readonly lines: number; readonly amount: string }[]
    > {
      const { rows } = await client.query<{ currency: string; lines: number; amount: string }>(
        `select coin as currency, count(*) as lines, sum(coins)::text as amount from classified
          where coin is not null and class not in ('outside', 'duplicate', 'open', 'not_final') group by coin order by coin`,
      )
      return rows
    },

    /** Entries in the period without a line, of the kinds that the files cover. */
    async missingThere(
      covered: readonly Coverage[],
    ): Promise<{ readonly entries: number; readonly hereMicros: bigint }> {
      const { rows } = await client.query<{ entries: number; here: string }>(
        `select count(*) as entries, coalesce(sum(amount), 0)::text as here ${missingThere}`,
        [covered],
      )
      return { entries: rows[0]?.entries ?? 0, hereMicros: BigInt(rows[0]?.here ?? 0) }
    },

    /** The number of differences between the lines' fees and payouts and their entries. */
    async bookingDifferences({ isPosted }: ComparisonScope): Promise<Record<BookingDifference, number>> {
      const countOf = async (from: string, values: readonly unknown[] = []): Promise<number> => {
        const { rows } = await client.query<{ lines: number }>(`select count(*) as lines ${from}`, [
          ...values,
        ])
        return rows[0]?.lines ?? 0
      }
      return {
        not_booked: await countOf(newLines),
        other_fee: await countOf(otherFee),
        other_time: await countOf(otherTime, [isPosted]),
      }
    },

    /** The change of the balance by the lines of the period, in micro-dollars: those that count at the provider. */
    async rowsMicros(): Promise<bigint> {
      const { rows } = await client.query<{ micros: string }>(
        `select coalesce(sum(amount - fee), 0)::text as micros from classified
          where within and currency = 'usd' and class not in ('duplicate', 'open', 'not_final')`,
      )
      return BigInt(rows[0]?.micros ?? 0)
    },

    /** The balances at the start and the end of the period, micro-dollars. */
    async balancesHere({
      book,
      accounts,
      range,
      from,
      before,
    }: ComparisonScope): Promise<{ readonly openingMicros: bigint; readonly closingMicros: bigint }> {
      const balanceAt = async (position: number, time: string | null): Promise<bigint> => {
        const { rows } = await client.query<{ micros: string }>(balanceHere, [book, accounts, position, time])
        return BigInt(rows[0]?.micros ?? 0)
      }
      return {
        openingMicros: from === null ? 0n : await balanceAt(range.after, from),
        closingMicros: await balanceAt(range.to, before),
      }
    },

    /** The first differences of a class, in the order of the files or of the log. */
    async differences(
      differenceClass: DifferenceClass,
      maxRows: number,
      covered: readonly Coverage[],
      { isPosted }: ComparisonScope,
    ): Promise<readonly Difference[]> {
      const read = async (select: string, values: readonly unknown[]): Promise<readonly DifferenceRow[]> =>
        (await client.query<DifferenceRow>(select, [...values])).rows
      const readBooking = (name: BookingDifference, values: readonly unknown[]) =>
        read(
          `select '${name}' as class, ${bookingDifferences[name].columns} ${bookingDifferences[name].from}
            order by n limit ${maxRows}`,
          values,
        )
      const readClass = (): Promise<readonly DifferenceRow[]> => {
        switch (differenceClass) {
          case 'missing_there':
            return read(
              `select 'missing_there' as class, null as file, null::bigint as line, null as "externalId", kind,
                      null as word, null as currency, null as there, null::timestamptz as "thereAt", position,
                      reference, deposit_id as "depositId", account_id as "accountId", amount::text as here,
                      at as "hereAt" ${missingThere} order by position, leg limit $2::bigint`,
              [covered, maxRows],
            )
          case 'other_time':
            return readBooking(differenceClass, [isPosted])
          case 'not_booked':
          case 'other_fee':
            return readBooking(differenceClass, [])
          default:
            return read(
              `select ${differenceColumns} from classified where class = $2::text order by n limit $1::bigint`,
              [maxRows, differenceClass],
            )
        }
      }
      const rows = await readClass()
      return rows.map(({ there, here, ...difference }) => ({
        ...difference,
        thereMicros: there === null ? null : BigInt(there),
        hereMicros: here === null ? null : BigInt(here),
      }))
    },

    /** Reads the fees and payouts of the books again, after lines were posted. `head`: the journal has reached it. */
    async afterPosting({ book, accounts, from, before }: ComparisonScope, head: number): Promise<void> {
      await client.query('drop table booked_lines')
      await client.query(bookedLines, [book, accounts, head, from, before])
    },

    /** Lines to post, and those that the books already have. */
    async postable(): Promise<Postable> {
      type Row = {
        lines: number
        fee: string
        payout: string
        posted: number
        moved: string
      }
      const { rows } = await client.query<Row>(postedOf)
      const { fee, payout, moved, ...counts } = rows[0] as Row
      const { rows: unmatched } = await client.query<{ lines: number; fee: string }>(unmatchedFees)
      return {
        ...counts,
        feeMicros: BigInt(fee),
        payoutMicros: BigInt(payout),
        postedMicros: BigInt(moved),
        unmatched: unmatched[0]?.lines ?? 0,
        unmatchedMicros: BigInt(unmatched[0]?.fee ?? 0),
      }
    },

    /** The first lines that are not dated by the statement, up to `head`, with the number and the sum of all. */
    async otherTimes(
      { book, accounts, zone }: ComparisonScope,
      head: number,
      maxRows: number,
    ): Promise<{ readonly count: number; readonly micros: bigint; readonly lines: readonly OtherTime[] }> {
      type Row = Omit<OtherTime, 'amountMicros'> & { amount: string }
      const of = [book, accounts, head]
      const { rows } = await client.query<Row>(
        `select e.reference, position, sum(p.amount_micros)::text as amount, e.happened_at as "thereAt", e.at as "hereAt",
                to_char(e.at at time zone $4::text, 'YYYY-MM') as month,
                case when e.happened_at > e.at then 'in_future'
                     when e.happened_at < (select min(at) from read.journal_seconds) then 'before_log'
                     else 'month_closed' end as why ${otherTimes}
          group by e.reference, position, e.happened_at, e.at order by position limit $5::bigint`,
        [...of, zone, maxRows],
      )
      const { rows: totals } = await client.query<{ count: number; micros: string }>(
        `select count(distinct position) as count, coalesce(sum(p.amount_micros), 0)::text as micros ${otherTimes}`,
        of,
      )
      return {
        count: totals[0]?.count ?? 0,
        micros: BigInt(totals[0]?.micros ?? 0),
        lines: rows.map(({ amount, ...line }) => ({ ...line, amountMicros: BigInt(amount) })),
      }
    },

    /** The number of lines that are to be posted and not yet booked, and the sum of their fees and payouts. */
    async newLines(): Promise<{ readonly count: number; readonly sizeMicros: bigint }> {
      const { rows } = await client.query<{ count: number; size: string }>(
        `select count(*) as count, coalesce(sum(abs(l.fee) + abs(l.payout)), 0)::text as size ${newLines}`,
      )
      return { count: rows[0]?.count ?? 0, sizeMicros: BigInt(rows[0]?.size ?? 0) }
    },

    /** These lines, as bookings on a gateway. `fileOf`: the file of a name. */
    async *toPost(
      gateway: string,
      fileOf: (name: string) => StatementBooking['file'],
    ): AsyncGenerator<StatementBooking> {
      type Row = {
        n: number
        file: string
        external_id: string
        word: string
        at: string
        fee: number
        payout: number
      }
      let last = -1
      for (;;) {
        const { rows } = await client.query<Row>(
          `select n, c.file, l.external_id, c.word, c.at, l.fee, l.payout ${newLines} and n > $1::bigint
            order by n limit ${pageSize}`,
          [last],
        )
        for (const { n, file, external_id, word, at, fee, payout } of rows) {
          last = n
          yield {
            gateway,
            reference: external_id,
            category: word,
            feeMicros: fee,
            payoutMicros: payout,
            happenedAt: at,
            file: fileOf(file),
            proposalId: null,
          }
        }
        if (rows.length < pageSize) return
      }
    },

    /** The provider's own lines, in the order of the files. */
    async own(maxRows: number): Promise<readonly OwnLine[]> {
      const { rows } = await client.query<
        Omit<OwnLine, 'amountMicros' | 'feeMicros'> & { amount: string; fee: string }
      >(
        `select file, line, external_id as "externalId", kind, word, at, currency, amount::text as amount,
                fee::text as fee from classified where class = 'own' order by n limit $1::bigint`,
        [maxRows],
      )
      return rows.map(({ amount, fee, ...line }) => ({
        ...line,
        amountMicros: BigInt(amount),
        feeMicros: BigInt(fee),
      }))
    },
  }
}
