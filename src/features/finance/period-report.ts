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
import type { Calendar } from '../../kernel/calendar.ts'
import { isoTime } from '../../kernel/clock.ts'
import { csv } from '../../kernel/csv.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { plainDollars } from '../../kernel/money.ts'
import { nextPeriod, type Period, periodBefore } from '../../kernel/months.ts'

/**
 * The version of the chart of accounts when a month was closed. A closing without a number used the first chart, in
 * which a reseller's debt to the service and the service's grants to it were on `equity:funding`. Closed months do not
 * change.
 */
export const currentChart = 2

type BookAccount = Pick<Posting, 'book' | 'account'>

const adjustmentPrefix = adjustmentRevenueAccount('')

/** Whether the account is missing in the first chart. */
export const isOfLaterChart = ({ book, account }: BookAccount): boolean =>
  book !== serviceBook && (account === serviceDebtAccount || account.startsWith(adjustmentPrefix))

/** Whether the account was another one in the first chart, or included more there. */
export const isMerged = (bookAccount: BookAccount): boolean =>
  (bookAccount.book !== serviceBook && bookAccount.account === fundingAccount) || isOfLaterChart(bookAccount)

/** The one leg of the first chart that replaces an entry's merged ones; empty if their sum is 0. */
export const mergedOf = (postings: readonly Posting[]): readonly Posting[] => {
  const legs = postings.filter(isMerged)
  const [first] = legs
  if (first === undefined) return []
  const debit = legs.reduce((sum, { debitMicros, creditMicros }) => sum + debitMicros - creditMicros, 0)
  if (debit === 0) return []
  const amounts = { debitMicros: Math.max(debit, 0), creditMicros: Math.max(-debit, 0) }
  return [{ book: first.book, account: fundingAccount, ...amounts }]
}

/** An account in a month, micro-dollars. Opening and closing are signed; a debit balance is positive. */
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
  /** Every account with postings up to the end of the month, by book and name in byte order. */
  readonly lines: readonly PeriodLine[]
  /** The lines in the first chart, before resellers' books had debts to the service; null if they are the same. */
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

/** The order of the lines of a report. */
export const byteOrder = (a: PeriodLine, b: PeriodLine): number =>
  Buffer.compare(Buffer.from(`${a.book}\0${a.account}`), Buffer.from(`${b.book}\0${b.account}`))

/** The ends of months: the recorded ones, and those of the calendar for months that were not cut off. */
export type PeriodEnds = {
  /** The first instant after the month, milliseconds. */
  endMs(period: Period): number
  /** The month of an instant. */
  periodOf(epochMs: number): Period
}

/** @param recorded the ends of the months that were cut off, milliseconds. The first of them begins with the log */
export const createPeriodEnds = (calendar: Calendar, recorded: ReadonlyMap<Period, number>): PeriodEnds => {
  const [earliest] = [...recorded.keys()].sort()
  const endMs = (period: Period): number => recorded.get(period) ?? calendar.endOfPeriodMs(period)
  return {
    endMs,
    periodOf: (epochMs) => {
      // A month that was cut off in another time zone may end some hours before or after that of the calendar.
      let period = periodBefore(calendar.periodOf(epochMs))
      if (earliest !== undefined && period < earliest) period = earliest
      while (epochMs >= endMs(period)) period = nextPeriod(period)
      return period
    },
  }
}

/** Folds a log from its start into the reports of its months. */
export type PeriodFold = {
  /** Adds the next event in log order. Returns the reports of the months that ended before it, the oldest first. */
  take(event: RecordedEvent): readonly PeriodReport[]
  /** Counts the next event without booking it, because it cannot be decoded or booked. */
  passBy(eventId: string): void
  /** The month of the last event so far; null before the first event. */
  current(): PeriodReport | null
}

/**
 * Assigns each event to the month of its accounting time, the running maximum of `recordedAt` in log order. A month is
 * therefore a contiguous part of the log, and later events never change it.
 */
export const createPeriodFold = (ends: PeriodEnds): PeriodFold => {
  const entryStream = createEntryStream()
  const accounts = new Map<string, Sums>()
  /** The sums of the accounts that the first chart merged into one. The other accounts are the same in both charts. */
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

  const enterPeriod = (newPeriod: Period): void => {
    period = newPeriod
    endsAt = isoTime(ends.endMs(newPeriod))
  }

  const reportOf = (reported: Period): PeriodReport => {
    const lines = [...accounts.values()].map(lineOf)
    const unmerged = lines.filter((line) => !isMerged(line))
    return {
      firstChart: chartsDiffer ? [...unmerged, ...[...merged.values()].map(lineOf)].sort(byteOrder) : null,
      period: reported,
      throughOrdinal: ordinal,
      throughEventId: lastEventId,
      entries,
      lines: lines.sort(byteOrder),
    }
  }

  const roll = (endedPeriod: Period): PeriodReport => {
    const report = reportOf(endedPeriod)
    for (const sums of [...accounts.values(), ...merged.values()]) {
      sums.opening += sums.debit - sums.credit
      sums.debit = 0n
      sums.credit = 0n
    }
    entries = 0
    enterPeriod(nextPeriod(endedPeriod))
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
      if (period === null) enterPeriod(ends.periodOf(Date.parse(at)))
      const endedReports: PeriodReport[] = []
      while (period !== null && at >= endsAt) endedReports.push(roll(period))
      count(event.id)
      if (entry !== null) book(entry)
      return endedReports
    },
    passBy: count,
    current: () => (period === null ? null : reportOf(period)),
  }
}

const heading = ['book', 'account', 'opening', 'debits', 'credits', 'closing']

/** The report as CSV, in exact dollars. */
export const reportCsv = ({ lines }: Pick<PeriodReport, 'lines'>): string => {
  const rows = lines.map(({ book, account, ...sums }) => [
    book,
    account,
    ...[sums.openingMicros, sums.debitMicros, sums.creditMicros, sums.closingMicros].map(plainDollars),
  ])
  return csv(heading, rows)
}

/** The digested text of a closed month: its CSV without the byte order mark, and with LF line ends. */
export const digestedText = (report: Pick<PeriodReport, 'lines'>): string =>
  reportCsv(report).slice(1).replaceAll('\r\n', '\n')

/** The report in the chart of accounts of the month's closing. */
export const inChartOf = (
  report: PeriodReport,
  { chart }: Pick<PeriodClosed['data'], 'chart'>,
): PeriodReport =>
  chart === undefined && report.firstChart !== null ? { ...report, lines: report.firstChart } : report

/** The recorded part of a report. */
export const closedOf = (report: PeriodReport): PeriodClosed['data'] => ({
  chart: currentChart,
  period: report.period,
  throughOrdinal: report.throughOrdinal,
  throughEventId: report.throughEventId,
  entries: report.entries,
  accounts: report.lines.length,
  digest: hash('sha256', digestedText(report)),
})

/** The recorded part of a report, in the first chart of accounts and in the current one. */
export type Closings = { readonly first: PeriodClosed['data']; readonly current: PeriodClosed['data'] }

export const closingsOf = (report: PeriodReport): Closings => {
  const current = closedOf(report)
  return { first: report.firstChart === null ? current : closedOf(inChartOf(report, {})), current }
}

/** The difference between a recorded closing and the current log; null if there is none. */
export const differenceOf = (closed: PeriodClosed['data'], { first, current }: Closings): string | null => {
  if (closed.chart !== undefined && closed.chart !== currentChart)
    return `${closed.period} was closed in chart ${closed.chart} of accounts; there are 1, which has no number, and ${currentChart}`
  const now = closed.chart === undefined ? first : current
  for (const name of ['throughOrdinal', 'throughEventId', 'entries', 'accounts', 'digest'] as const)
    if (closed[name] !== now[name])
      return `${closed.period} was closed with ${name} ${closed[name]}, the log gives ${now[name]}`
  return null
}
