import { hash } from 'node:crypto'
import { type BookTime, createEntryStream, type Entry } from '../../domain/finance/entries.ts'
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

type Sums = { readonly book: string; readonly account: string; debit: bigint; credit: bigint }

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
  /**
   * Adds the next event in log order. Returns the reports that can no longer change, the oldest first: those of the
   * months that were cut off by the event, or before a month that was.
   */
  take(event: RecordedEvent): readonly PeriodReport[]
  /** Counts the next event without booking it, because it cannot be decoded or booked. */
  passBy(eventId: string): void
  /** The other months so far, the oldest first. The last one is that of the last event. */
  open(): readonly PeriodReport[]
}

/** The movements of a month, or of several. */
type Movements = {
  readonly accounts: Map<string, Sums>
  /** The sums of the accounts that the first chart merged into one. The other accounts are the same in both charts. */
  readonly merged: Map<string, Sums>
  chartsDiffer: boolean
}

type Month = Movements & {
  readonly period: Period
  /** The first instant after it, ISO 8601 UTC. */
  readonly endsAt: string
  throughOrdinal: number
  throughEventId: string | null
  entries: number
}

const noMovements = (): Movements => ({ accounts: new Map(), merged: new Map(), chartsDiffer: false })

const addTo = (
  sums: Map<string, Sums>,
  { book, account }: BookAccount,
  debit: bigint,
  credit: bigint,
): void => {
  const key = `${book}\0${account}`
  const existing = sums.get(key)
  if (existing === undefined) sums.set(key, { book, account, debit, credit })
  else {
    existing.debit += debit
    existing.credit += credit
  }
}

/** Adds the movements of a month to those before it. */
const addMonth = (total: Movements, month: Movements): void => {
  for (const which of ['accounts', 'merged'] as const)
    for (const sums of month[which].values()) addTo(total[which], sums, sums.debit, sums.credit)
  total.chartsDiffer ||= month.chartsDiffer
}

/** Every account that moved before the end of a month. */
const linesOf = (before: ReadonlyMap<string, Sums>, month: ReadonlyMap<string, Sums>): PeriodLine[] =>
  [...new Set([...before.keys(), ...month.keys()])].map((key) => {
    const earlier = before.get(key)
    const moved = month.get(key)
    const { book, account } = (moved ?? earlier) as Sums
    const openingMicros = (earlier?.debit ?? 0n) - (earlier?.credit ?? 0n)
    const [debitMicros, creditMicros] = [moved?.debit ?? 0n, moved?.credit ?? 0n]
    const closingMicros = openingMicros + debitMicros - creditMicros
    return { book, account, openingMicros, debitMicros, creditMicros, closingMicros }
  })

const reportOf = (before: Movements, month: Month): PeriodReport => {
  const lines = linesOf(before.accounts, month.accounts)
  const unmerged = lines.filter((line) => !isMerged(line))
  const merged = linesOf(before.merged, month.merged)
  return {
    firstChart: before.chartsDiffer || month.chartsDiffer ? [...unmerged, ...merged].sort(byteOrder) : null,
    period: month.period,
    throughOrdinal: month.throughOrdinal,
    throughEventId: month.throughEventId,
    entries: month.entries,
    lines: lines.sort(byteOrder),
  }
}

/**
 * Assigns each entry to the month of its accounting time. In log order it never decreases, except for lines of
 * statements, which are dated back until their month is cut off. So a month can change until then, and never later.
 */
export const createPeriodFold = (ends: PeriodEnds): PeriodFold => {
  const entryStream = createEntryStream()
  const before = noMovements()
  const months: Month[] = []
  let ordinal = 0
  let lastEventId: string | null = null

  const enterMonth = (period: Period): void => {
    months.push({
      ...noMovements(),
      period,
      endsAt: isoTime(ends.endMs(period)),
      throughOrdinal: ordinal,
      throughEventId: lastEventId,
      entries: 0,
    })
  }

  const book = ({ at, postings }: Entry): void => {
    const month = months.find(({ endsAt }) => at < endsAt) as Month
    month.entries += 1
    for (const posting of postings) {
      addTo(month.accounts, posting, BigInt(posting.debitMicros), BigInt(posting.creditMicros))
      if (isOfLaterChart(posting)) month.chartsDiffer = true
    }
    for (const posting of mergedOf(postings))
      addTo(month.merged, posting, BigInt(posting.debitMicros), BigInt(posting.creditMicros))
  }

  const count = (eventId: string): void => {
    ordinal += 1
    lastEventId = eventId
    const month = months.at(-1)
    if (month !== undefined) {
      month.throughOrdinal = ordinal
      month.throughEventId = eventId
    }
  }

  return {
    take: (event) => {
      const entry = entryStream.next(event)
      const { at, openFrom } = entryStream.time as BookTime
      if (months.length === 0) enterMonth(ends.periodOf(Date.parse(at)))
      for (let last = months.at(-1) as Month; at >= last.endsAt; last = months.at(-1) as Month)
        enterMonth(nextPeriod(last.period))
      count(event.id)
      if (entry !== null) book(entry)
      const finished: PeriodReport[] = []
      while (months.length > 1 && openFrom >= (months[0] as Month).endsAt) {
        const month = months.shift() as Month
        finished.push(reportOf(before, month))
        addMonth(before, month)
      }
      return finished
    },
    passBy: count,
    open: () => {
      const earlier = noMovements()
      addMonth(earlier, before)
      return months.map((month) => {
        const report = reportOf(earlier, month)
        addMonth(earlier, month)
        return report
      })
    },
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
