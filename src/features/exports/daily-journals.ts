import { serviceBook } from '../../domain/ledger/books.ts'
import type { Calendar } from '../../kernel/calendar.ts'
import { type CsvValue, csvHead, csvLines } from '../../kernel/csv.ts'
import { plainDollars } from '../../kernel/money.ts'
import type { AccountMapping, TargetAccount } from './account-mapping.ts'
import { type DailyFormat, type JournalWriter, legsByBook } from './journal-formats.ts'

/** Accounts of the book that the mapping lacks. No file is written. */
export class UnmappedAccounts extends Error {
  override readonly name = 'UnmappedAccounts'
}

/** The file would have more lines than the other system imports. No file is written. */
export class TooManyJournalLines extends Error {
  override readonly name = 'TooManyJournalLines'
}

/** A line of a day's journal, cents: positive for a debit, negative for a credit. */
export type DayLine = { readonly day: string; readonly target: TargetAccount; readonly cents: bigint }

type Journal = { readonly book: string; readonly zone: string }

type DaySpelling = {
  readonly heading: readonly string[]
  /** The number of lines that the system imports from one file. */
  readonly maxLines: number
  row(line: DayLine, journal: Journal): readonly CsvValue[]
}

const microsPerCent = 10_000n

const dollars = (cents: bigint): string => plainDollars(cents * microsPerCent).slice(0, -4)

/** It differs for two books, which may be imported into one organisation. */
const title = (day: string, { book, zone }: Journal): string =>
  `Farebox ${day} (${zone})${book === serviceBook ? '' : ` ${book}`}`

/** The number of a journal, at most the 21 characters of QuickBooks. A reseller's has the end of its id. */
const numberOf = (day: string, { book }: Journal): string =>
  `${book === serviceBook ? 'farebox' : `fb${book.slice(book.lastIndexOf('_') + 1).slice(-8)}`}-${day}`

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const spellings: Readonly<Record<DailyFormat, DaySpelling>> = {
  /**
   * Xero's template for manual journals, https://help.xero.com/nz/ManualJournalsImport: lines with the same narration
   * and date form a journal, a positive amount is a debit, a file has at most 300 lines. Dates may be `dd/mm/yyyy` or
   * `dd mmm yyyy`; an organisation in the United States reads the month of the first one first. An asterisk marks a
   * mandatory column.
   */
  xero: {
    heading: [
      '*Narration',
      '*Date',
      'Description',
      '*AccountCode',
      '*TaxRate',
      '*Amount',
      'TrackingName1',
      'TrackingOption1',
      'TrackingName2',
      'TrackingOption2',
    ],
    maxLines: 300,
    row: ({ day, target: { code, taxRate, accounts }, cents }, journal) => {
      const [year, month, date] = day.split('-')
      const dateText = `${date} ${months[Number(month) - 1]} ${year}`
      const what = accounts.join(', ')
      const tracking = [null, null, null, null]
      return [title(day, journal), dateText, what, code, taxRate, dollars(cents), ...tracking]
    },
  },
  /**
   * The columns of "Import journal entries" in the help of QuickBooks Online,
   * https://quickbooks.intuit.com/learn-support/en-au/help-article/import-export-files/import-journal-entries-quickbooks-online/L4tQBwbs7_AU_en_AU:
   * lines with the same number form an entry, a subaccount is written `Parent:Sub`. Dates are MM/DD/YYYY, as in
   * the United States. An import of QuickBooks Online has at most 1,000 rows.
   */
  quickbooks: {
    heading: ['Journal No', 'Journal Date', 'Account Name', 'Debits', 'Credits', 'Description'],
    maxLines: 1_000,
    row: ({ day, target: { code, accounts }, cents }, journal) => {
      const [year, month, date] = day.split('-')
      const debit = cents > 0n ? dollars(cents) : null
      const credit = cents < 0n ? dollars(-cents) : null
      const what = `${title(day, journal)}: ${accounts.join(', ')}`
      return [numberOf(day, journal), `${month}/${date}/${year}`, code, debit, credit, what]
    },
  },
}

/**
 * Balances (micro-dollars that sum to zero) as whole cents that sum to zero. Each is rounded down; the missing cents are
 * added to the balances with the largest remainders, the first ones if equal. So a balance differs from its exact amount
 * by less than one cent, and whole cents do not change.
 */
export const roundBalances = <Key>(balances: ReadonlyMap<Key, bigint>): ReadonlyMap<Key, bigint> => {
  const parts = [...balances].map(([key, micros]) => {
    const remainder = ((micros % microsPerCent) + microsPerCent) % microsPerCent
    return { key, cents: (micros - remainder) / microsPerCent, remainder }
  })
  const missingCents = -parts.reduce((sum, { cents }) => sum + cents, 0n)
  const raised = new Set(
    parts.toSorted((a, b) => Number(b.remainder - a.remainder)).slice(0, Number(missingCents)),
  )
  return new Map(parts.map((part) => [part.key, part.cents + (raised.has(part) ? 1n : 0n)]))
}

/** The name of an account without the ids of its owner: `liabilities:wallet`. */
const withoutIds = (account: string): string =>
  account
    .split(':')
    .filter((name) => !/^(?:acc|cus|crd)_/.test(name))
    .join(':')

/**
 * Writes one balanced journal for each day from `from`, with a total for each target account. A total is the difference
 * of two balances, each rounded by `roundBalances`. Balances begin with the log, so the totals of a day are the same in
 * every file that has it, and the days of any range add up to the difference of its rounded balances.
 */
export const dailyWriter = ({
  format,
  book,
  mapping,
  from,
  calendar,
}: {
  readonly format: DailyFormat
  readonly book: string
  readonly mapping: AccountMapping
  /** The first day of the file. */
  readonly from: string
  /** Of the accounting time zone. */
  readonly calendar: Calendar
}): JournalWriter => {
  const { heading, maxLines, row } = spellings[format]
  /** The changes of the targets, micro-dollars, by day. */
  const days = new Map<string, Map<TargetAccount, bigint>>()
  const unmapped = new Set<string>()

  const linesOf = (): readonly DayLine[] => {
    const lines: DayLine[] = []
    const balances = new Map(mapping.targets.map((target) => [target, 0n]))
    let atDayBefore = roundBalances(balances)
    for (const [day, changes] of [...days].sort(([a], [b]) => (a < b ? -1 : 1))) {
      for (const [target, micros] of changes) balances.set(target, (balances.get(target) ?? 0n) + micros)
      const rounded = roundBalances(balances)
      if (day >= from)
        for (const [target, cents] of rounded) {
          const change = cents - (atDayBefore.get(target) ?? 0n)
          if (change !== 0n) lines.push({ day, target, cents: change })
        }
      atDayBefore = rounded
    }
    return lines
  }

  const refuseTooMany = (lines: readonly DayLine[]): void => {
    const firstTooMany = lines[maxLines]
    if (firstTooMany === undefined) return
    const advice =
      firstTooMany.day === lines[0]?.day
        ? 'map more accounts to one code'
        : `end it with --to ${firstTooMany.day}`
    throw new TooManyJournalLines(
      `the file would have ${lines.length} lines, and ${format} imports ${maxLines}: ${advice}`,
    )
  }

  return {
    head: () => '',
    entry: (entry) => {
      const day = calendar.dayOf(Date.parse(entry.at))
      const changes = days.get(day) ?? new Map<TargetAccount, bigint>()
      days.set(day, changes)
      for (const { account, amountMicros } of legsByBook(entry, book).get(book) ?? []) {
        const target = mapping.targetOf(account)
        if (target === null) unmapped.add(withoutIds(account))
        else changes.set(target, (changes.get(target) ?? 0n) + BigInt(amountMicros))
      }
      return ''
    },
    end: () => {
      if (unmapped.size > 0)
        throw new UnmappedAccounts(`the mapping has no line for ${[...unmapped].sort().join(', ')}`)
      const lines = linesOf()
      refuseTooMany(lines)
      return csvHead(heading) + csvLines(lines.map((line) => row(line, { book, zone: calendar.zone })))
    },
  }
}
