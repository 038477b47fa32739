import { hash } from 'node:crypto'
import { createEntryStream, type Entry } from '../../domain/finance/entries.ts'
import { serviceBook } from '../../domain/ledger/books.ts'
import {
  adjustmentRevenueAccount,
  fundingAccount,
  type Posting,
  serviceDebtAccount,
} from '../../domain/ledger/postings.ts'
import type { PeriodClosed } from '../../domain/periods/events.ts'
import { csv } from '../../kernel/csv.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { plainDollars } from '../../kernel/money.ts'
import { endOfPeriodMs, nextPeriod, type Period, periodOf } from '../../kernel/months.ts'

/**
 * Which accounts the books had when a month was closed: a closing without a number was made in the first chart, where a
 * reseller's debt to the service and what the service gave it stood on `equity:funding`. Closed months stay as closed.
 */
export const currentChart = 2

type Place = Pick<Posting, 'book' | 'account'>

const given = adjustmentRevenueAccount('')

/** Whether the first chart did not have the account. */
export const isOfLaterChart = ({ book, account }: Place): boolean =>
  book !== serviceBook && (account === serviceDebtAccount || account.startsWith(given))

/** Whether the first chart had the account as another one, or with more on it. */
export const isMerged = (place: Place): boolean =>
  (place.book !== serviceBook && place.account === fundingAccount) || isOfLaterChart(place)

/** The one leg that the first chart had in place of an entry's merged ones; none where they come to nothing. */
export const mergedOf = (postings: readonly Posting[]): readonly Posting[] => {
  const legs = postings.filter(isMerged)
  const [first] = legs
  if (first === undefined) return []
  const debit = legs.reduce((sum, { debitMicros, creditMicros }) => sum + debitMicros - creditMicros, 0)
  if (debit === 0) return []
  const amounts = { debitMicros: Math.max(debit, 0), creditMicros: Math.max(-debit, 0) }
  return [{ book: first.book, account: fundingAccount, ...amounts }]
}

/** An account in a month, micro-dollars. Opening and closing are signed, above zero a debit balance. */
export type PeriodLine = {
  readonly book: string
  readonly account: string
  readonly openingMicros: bigint
  readonly debitMicros: bigint
  readonly creditMicros: bigint
  readonly closingMicros: bigint
}

export type PeriodReport = {
  readonly period: Period
  readonly throughOrdinal: number
  readonly throughEventId: string | null
  readonly entries: number
  /** Every account that was ever booked on by the end of the month, by book and name in byte order. */
  readonly lines: readonly PeriodLine[]
  /** The lines as months were closed before resellers' books had debts to the service; null where they are the same. */
  readonly firstChart: readonly PeriodLine[] | null
}

type Sums = { book: string; account: string; opening: bigint; debit: bigint; credit: bigint }

const lineOf = ({ book, account, opening, debit, credit }: Sums): PeriodLine => ({
  book,
  account,
  openingMicros: opening,
  debitMicros: debit,
  creditMicros: credit,
  closingMicros: opening + debit - credit,
})

const byteOrder = (a: PeriodLine, b: PeriodLine): number =>
  Buffer.compare(Buffer.from(`${a.book}\0${a.account}`), Buffer.from(`${b.book}\0${b.account}`))

/** Folds a log from its start into the reports of its months. */
export type PeriodFold = {
  /** The next event in log order. Gives the reports of the months that were over before it, the oldest first. */
  take(event: RecordedEvent): readonly PeriodReport[]
  /** The next event is counted and not booked: it cannot be read, or not be booked. */
  passBy(eventId: string): void
  /** The month that the last event was booked in, as far as it goes; null before the first event. */
  current(): PeriodReport | null
}

/**
 * Which month an event is booked in: that of its accounting time, the running maximum of `recordedAt` in log order. So
 * a month is a stretch of the log without a gap, and later events never get into it.
 */
export const createPeriodFold = (): PeriodFold => {
  const entryStream = createEntryStream()
  const accounts = new Map<string, Sums>()
  /** Of the first chart: what stood on the accounts that it knew as one. The others were as they are. */
  const merged = new Map<string, Sums>()
  let chartsDiffer = false
  let period: Period | null = null
  let endsAt = ''
  let ordinal = 0
  let lastEventId: string | null = null
  let entries = 0

  const sumsOf = (of: Map<string, Sums>, book: string, account: string): Sums => {
    const key = `${book}\0${account}`
    let sums = of.get(key)
    if (sums === undefined) {
      sums = { book, account, opening: 0n, debit: 0n, credit: 0n }
      of.set(key, sums)
    }
    return sums
  }

  const add = (sums: Sums, { debitMicros, creditMicros }: Posting): void => {
    sums.debit += BigInt(debitMicros)
    sums.credit += BigInt(creditMicros)
  }

  const book = (entry: Entry): void => {
    entries += 1
    for (const posting of entry.postings) {
      add(sumsOf(accounts, posting.book, posting.account), posting)
      if (isOfLaterChart(posting)) chartsDiffer = true
    }
    for (const posting of mergedOf(entry.postings))
      add(sumsOf(merged, posting.book, posting.account), posting)
  }

  const enter = (entered: Period): void => {
    period = entered
    endsAt = new Date(endOfPeriodMs(entered)).toISOString()
  }

  const reportOf = (reported: Period): PeriodReport => {
    const lines = [...accounts.values()].map(lineOf)
    const kept = lines.filter((line) => !isMerged(line))
    return {
      firstChart: chartsDiffer ? [...kept, ...[...merged.values()].map(lineOf)].sort(byteOrder) : null,
      period: reported,
      throughOrdinal: ordinal,
      throughEventId: lastEventId,
      entries,
      lines: lines.sort(byteOrder),
    }
  }

  const roll = (over: Period): PeriodReport => {
    const report = reportOf(over)
    for (const sums of [...accounts.values(), ...merged.values()]) {
      sums.opening += sums.debit - sums.credit
      sums.debit = 0n
      sums.credit = 0n
    }
    entries = 0
    enter(nextPeriod(over))
    return report
  }

  const count = (eventId: string): void => {
    ordinal += 1
    lastEventId = eventId
  }

  return {
    take: (event) => {
      const entry = entryStream.next(event)
      const at = entryStream.at ?? event.metadata.recordedAt
      if (period === null) enter(periodOf(at))
      const over: PeriodReport[] = []
      while (period !== null && at >= endsAt) over.push(roll(period))
      count(event.id)
      if (entry !== null) book(entry)
      return over
    },
    passBy: count,
    current: () => (period === null ? null : reportOf(period)),
  }
}

const heading = ['book', 'account', 'opening', 'debits', 'credits', 'closing']

/** The report as CSV: exact dollars. */
export const reportCsv = ({ lines }: Pick<PeriodReport, 'lines'>): string => {
  const rows = lines.map(({ book, account, ...sums }) => [
    book,
    account,
    ...[sums.openingMicros, sums.debitMicros, sums.creditMicros, sums.closingMicros].map(plainDollars),
  ])
  return csv(heading, rows)
}

/** What the digest of a closed month is over: its CSV without the mark at the start, and with LF at the end of each line. */
export const digestedText = (report: Pick<PeriodReport, 'lines'>): string =>
  reportCsv(report).slice(1).replaceAll('\r\n', '\n')

/** The report in the chart of accounts that a month was closed in. */
export const inChartOf = (
  report: PeriodReport,
  { chart }: Pick<PeriodClosed['data'], 'chart'>,
): PeriodReport =>
  chart === undefined && report.firstChart !== null ? { ...report, lines: report.firstChart } : report

/** What closing a month records of its report. */
export const closedOf = (report: PeriodReport): PeriodClosed['data'] => ({
  chart: currentChart,
  period: report.period,
  throughOrdinal: report.throughOrdinal,
  throughEventId: report.throughEventId,
  entries: report.entries,
  accounts: report.lines.length,
  digest: hash('sha256', digestedText(report)),
})

/** What closing a month records of its report, in the first chart of accounts and in today's. */
export type Closings = { readonly first: PeriodClosed['data']; readonly current: PeriodClosed['data'] }

export const closingsOf = (report: PeriodReport): Closings => {
  const current = closedOf(report)
  return { first: report.firstChart === null ? current : closedOf(inChartOf(report, {})), current }
}

/** How a closing on record differs from what the log gives now; null when it does not. */
export const differenceOf = (closed: PeriodClosed['data'], { first, current }: Closings): string | null => {
  if (closed.chart !== undefined && closed.chart !== currentChart)
    return `${closed.period} was closed in chart ${closed.chart} of accounts; there are 1, which has no number, and ${currentChart}`
  const now = closed.chart === undefined ? first : current
  for (const name of ['throughOrdinal', 'throughEventId', 'entries', 'accounts', 'digest'] as const)
    if (closed[name] !== now[name])
      return `${closed.period} was closed with ${name} ${closed[name]}, the log gives ${now[name]}`
  return null
}
