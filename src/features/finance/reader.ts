import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Statement } from './account-statement.ts'
import { readGatewayNames, withGateways } from './gateway-names.ts'
import type { Moment } from './input-forms.ts'
import { type AccountFilter, listLines, sumAccounts, sumBelow, sumByDay, totalsOf } from './journal.ts'
import type { Moments } from './moment.ts'
import { type BookSums, byBook, type Span } from './trial-balance.ts'

/** The reported part of the log: all up to a moment, or a half-open range of moments. */
export type ReportRange = {
  readonly asOf?: Moment | undefined
  readonly from?: Moment | undefined
  readonly to?: Moment | undefined
}

export const isRange = ({ from, to }: ReportRange): boolean => from !== undefined || to !== undefined

/**
 * Whether a range ends before it begins. Only the log can compare a position with a time; such a range is then empty.
 */
export const isReversedRange = ({ from, to }: ReportRange): boolean => {
  if (from?.kind === 'position' && to?.kind === 'position') return from.position > to.position
  return from?.kind === 'time' && to?.kind === 'time' && from.atMs > to.atMs
}

/** Reads reports from the journal, as of positions up to `head`, which the journal must have passed. */
export const createFinanceReader = ({
  db,
  log,
  moments,
}: {
  readonly db: Db
  readonly log: Pick<EventLog, 'readStreams'>
  readonly moments: Moments
}) => {
  /** @throws MomentPastHead */
  const spanOf = async (reportRange: ReportRange, head: number): Promise<Span> => {
    const after = reportRange.from ? await moments.before(reportRange.from, head) : 0
    const end = reportRange.to
      ? await moments.before(reportRange.to, head)
      : reportRange.asOf
        ? await moments.atOrBefore(reportRange.asOf, head)
        : head
    const position = Math.max(after, end)
    return { after, position, at: await moments.timeAt(position) }
  }
  const rangeOf = ({ after, position }: Span) => ({ after, to: position })

  return {
    spanOf,

    /** Every account with a movement or a balance, with both. */
    async trialBalance(
      reportRange: ReportRange,
      head: number,
      filter: { readonly book: string | null; readonly depth: number | null },
    ): Promise<{ readonly span: Span; readonly books: readonly BookSums[] }> {
      const span = await spanOf(reportRange, head)
      return { span, books: byBook(await withGateways(log, await sumAccounts(db, rangeOf(span), filter))) }
    },

    /** An account and those below it. */
    async account(
      reportRange: ReportRange,
      head: number,
      account: { readonly book: string; readonly account: string },
    ) {
      const span = await spanOf(reportRange, head)
      return { span, accounts: await withGateways(log, await sumBelow(db, rangeOf(span), account)) }
    },

    /** The movements of an account and those below it, by day (UTC) and account. */
    async byDay(
      reportRange: ReportRange,
      head: number,
      account: { readonly book: string; readonly account: string },
    ) {
      const span = await spanOf(reportRange, head)
      return { span, days: await sumByDay(db, rangeOf(span), account) }
    },

    /** The sums of an account over a range, without its lines. */
    async totals(reportRange: ReportRange, head: number, filter: AccountFilter) {
      const span = await spanOf(reportRange, head)
      const noSums = { openingMicros: 0n, debitMicros: 0n, creditMicros: 0n, lines: 0 }
      return { span, totals: (await totalsOf(db, rangeOf(span), filter)) ?? noSums }
    },

    /** A page of an account's lines, oldest first. */
    async statement(
      reportRange: ReportRange,
      head: number,
      filter: AccountFilter,
      page: { readonly limit: number; readonly offset: number },
    ): Promise<Statement> {
      const { span, totals } = await this.totals(reportRange, head, filter)
      const { openingMicros } = totals
      const lines = await listLines(db, rangeOf(span), filter, { ...page, openingMicros })
      const { book, account } = filter
      const gateway = (await readGatewayNames(log, [filter]))(account)
      return { span, book, account, gateway, totals, lines }
    },
  }
}

export type FinanceReader = ReturnType<typeof createFinanceReader>
