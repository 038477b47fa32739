import { LRUCache } from 'lru-cache'
import {
  concernsDelivery,
  createDeferredRevenue,
  type DeferredLine,
} from '../../domain/finance/deferred-revenue.ts'
import type { Calendar } from '../../kernel/calendar.ts'
import { isoTime } from '../../kernel/clock.ts'
import { decode, readLog } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Statement } from './account-statement.ts'
import { type CauseByHand, type EntryByHand, readCauses } from './causes-by-hand.ts'
import { readGatewayNames, withGateways } from './gateway-names.ts'
import { instantText, momentOf, type TypedMoment } from './input-forms.ts'
import {
  type AccountFilter,
  type Cut,
  closingMicros,
  entriesByHand,
  isDatedBack,
  type LinesPage,
  listLines,
  type Range,
  sumAccounts,
  sumBelow,
  sumByDay,
  totalsOf,
} from './journal.ts'
import type { Moments } from './moment.ts'
import { byteOrder, type PeriodLine } from './period-report.ts'
import { type BookSums, byBook, type Span } from './trial-balance.ts'

/** The reported part of the log: all up to a moment, or a half-open range of moments. */
export type ReportRange = {
  readonly asOf?: TypedMoment | undefined
  readonly from?: TypedMoment | undefined
  readonly to?: TypedMoment | undefined
}

export const isRange = ({ from, to }: ReportRange): boolean => from !== undefined || to !== undefined

/**
 * Whether a range ends before it begins. Moments of two forms are not compared; such a range is then empty.
 */
export const isReversedRange = ({ from, to }: ReportRange): boolean => {
  if (from?.kind === 'position' && to?.kind === 'position') return from.position > to.position
  if (from?.kind === 'day' && to?.kind === 'day') return from.day > to.day
  return from?.kind === 'time' && to?.kind === 'time' && from.atMs > to.atMs
}

/** The most rows of sums in a cache. */
const maxCachedRows = 20_000
/** The age at which sums are read again, milliseconds. */
const maxCachedMs = 5_000

/**
 * Caches sums of many rows for a short time. The log never changes. The journal up to a position that it has passed
 * changes only when a repair corrects rows that were changed outside the log.
 */
const createCachedReport = <Filter, Report>(
  read: (range: ReportRange, head: number, filter: Filter) => Promise<Report>,
  rowsOf: (report: Report) => number,
) => {
  const cache = new LRUCache<string, Report & object>({
    maxSize: maxCachedRows,
    sizeCalculation: (report) => rowsOf(report) + 1,
    ttl: maxCachedMs,
    ignoreFetchAbort: true,
    fetchMethod: (key) =>
      read(...(JSON.parse(key) as [ReportRange, number, Filter])) as Promise<Report & object>,
  })
  return (...request: readonly [ReportRange, number, Filter]): Promise<Report> =>
    cache.forceFetch(JSON.stringify(request))
}

/** Reads reports from the journal, as of positions up to `head`, which the journal must have passed. */
export const createFinanceReader = ({
  db,
  log,
  moments,
  calendar,
}: {
  readonly db: Db
  readonly log: Pick<EventLog, 'readStreams' | 'readAll'>
  readonly moments: Moments
  readonly calendar: Calendar
}) => {
  /** @param position the last one at or before the moment, or before it */
  const cutAt = async (typed: TypedMoment, position: number, head: number, before: boolean): Promise<Cut> => {
    const moment = momentOf(typed, calendar)
    if (moment.kind === 'position') return { position, at: null }
    const at = instantText(before ? moment.atMs - 1 : moment.atMs)
    return { position, at: (await isDatedBack(db, position, at, head)) ? at : null }
  }

  /** @throws MomentPastHead */
  const spanOf = async (
    { asOf, from, to }: ReportRange,
    head: number,
  ): Promise<Span & { readonly range: Range }> => {
    const start: Cut = from
      ? await cutAt(from, await moments.before(from, head), head, true)
      : { position: 0, at: null }
    const end: Cut = to
      ? await cutAt(to, await moments.before(to, head), head, true)
      : asOf
        ? await cutAt(asOf, await moments.atOrBefore(asOf, head), head, false)
        : { position: head, at: null }
    const position = Math.max(start.position, end.position)
    // As of a position, what was posted after it is not known.
    const range = { from: start, to: { ...end, position }, head: end.at === null ? position : head }
    return { after: start.position, position, at: await moments.timeAt(position), range }
  }
  type Account = { readonly book: string; readonly account: string }

  const trialBalance = async (
    reportRange: ReportRange,
    head: number,
    filter: { readonly book: string | null; readonly depth: number | null },
  ): Promise<{ readonly span: Span; readonly books: readonly BookSums[] }> => {
    const span = await spanOf(reportRange, head)
    return { span, books: byBook(await withGateways(log, await sumAccounts(db, span.range, filter))) }
  }

  const account = async (reportRange: ReportRange, head: number, filter: Account) => {
    const span = await spanOf(reportRange, head)
    return { span, accounts: await withGateways(log, await sumBelow(db, span.range, filter)) }
  }

  const byDay = async (
    reportRange: ReportRange,
    head: number,
    filter: Account & { readonly exceptStatements?: boolean },
  ) => {
    const span = await spanOf(reportRange, head)
    return { span, days: await sumByDay(db, span.range, filter, calendar.zone) }
  }

  const deferredRevenue = async (
    { asOf }: ReportRange,
    head: number,
  ): Promise<{ readonly span: Span; readonly lines: readonly DeferredLine[] }> => {
    const span = await spanOf({ asOf }, head)
    const moment = asOf === undefined ? null : momentOf(asOf, calendar)
    const fold = createDeferredRevenue()
    for await (const page of readLog(log, span.position))
      for (const stored of page) if (concernsDelivery(stored.stream)) fold.take(decode(stored))
    const atMs = moment?.kind === 'time' ? moment.atMs : Date.parse(span.at ?? isoTime(0))
    return { span, lines: fold.at(atMs) }
  }

  return {
    spanOf,

    /** Every account with a movement or a balance, with both. */
    trialBalance: createCachedReport(trialBalance, ({ books }) =>
      books.reduce((rows, { accounts }) => rows + accounts.length, 0),
    ),

    /** The lines of a month's report, in the order of its digest: every account with postings up to its end. */
    async periodLines(reportRange: ReportRange, head: number): Promise<readonly PeriodLine[]> {
      const span = await spanOf(reportRange, head)
      const sums = await sumAccounts(db, span.range, { book: null, depth: null })
      return sums.map((each) => ({ ...each, closingMicros: closingMicros(each) })).sort(byteOrder)
    },

    /** An account and those below it. */
    account: createCachedReport(account, ({ accounts }) => accounts.length),

    /** The movements of an account and those below it, by day of the accounting time zone and account. */
    byDay: createCachedReport(byDay, ({ days }) => days.length),

    /** The sums of an account over a range, without its lines. */
    async totals(reportRange: ReportRange, head: number, filter: AccountFilter) {
      const span = await spanOf(reportRange, head)
      const noSums = { openingMicros: 0n, debitMicros: 0n, creditMicros: 0n, lines: 0 }
      return { span, totals: (await totalsOf(db, span.range, filter)) ?? noSums }
    },

    /** What was sold and not delivered at a moment. Reads the log from its start. */
    deferredRevenue: createCachedReport(deferredRevenue, ({ lines }) => lines.length),

    /** The entries by hand of a range, and their number. */
    async byHand(
      reportRange: ReportRange,
      head: number,
      book: string | null,
      page: { readonly limit: number; readonly offset: number },
    ) {
      const span = await spanOf(reportRange, head)
      const { total, entries } = await entriesByHand(db, span.range, book, page)
      const causes = await readCauses(log, entries)
      return {
        span,
        total,
        entries: entries.map(
          (entry): EntryByHand => ({ ...entry, ...(causes.get(entry.position) as CauseByHand) }),
        ),
      }
    },

    /** A page of an account's lines. */
    async statement(
      reportRange: ReportRange,
      head: number,
      filter: AccountFilter,
      page: LinesPage,
    ): Promise<Statement> {
      const { span, totals } = await this.totals(reportRange, head, filter)
      const lines = await listLines(db, span.range, filter, totals, page)
      const { book, account } = filter
      const gateway = (await readGatewayNames(log, [filter]))(account)
      return { span, book, account, gateway, totals, lines }
    },
  }
}

export type FinanceReader = ReturnType<typeof createFinanceReader>
