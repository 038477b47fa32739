import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { serviceBook } from '../../../domain/ledger/books.ts'
import type { Calendar } from '../../../kernel/calendar.ts'
import { isoTime } from '../../../kernel/clock.ts'
import { closingDelayMs, nextPeriod, type Period, parsePeriod } from '../../../kernel/months.ts'
import { refuse } from '../../../platform/http/errors.ts'
import { formOf } from '../../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../../platform/ui/html.ts'
import { listOf } from '../../../platform/ui/list.ts'
import { foldProgress, runStateOf, runsTable } from '../../../platform/ui/long-runs.ts'
import {
  type ConsolePage,
  displayNameOf,
  fileOf,
  financePage,
  goTo,
  type PersonVisit,
  refused,
} from '../../../platform/ui/page.ts'
import { countColumn, detailsOf, nameColumn, tableOf, timeColumn } from '../../../platform/ui/table.ts'
import {
  type BadgeTone,
  buttonLink,
  countText,
  queryText,
  stateText,
  timeText,
} from '../../../platform/ui/text.ts'
import type { AccountSums, JournalHead } from '../journal.ts'
import type { ClosingRuns } from '../long-runs.ts'
import { digestedText, type PeriodLine, reportCsv } from '../period-report.ts'
import type { PeriodStatus, Periods } from '../period-service.ts'
import type { FinanceReader } from '../reader.ts'
import { sumsRow, sumsTable, totalRow } from './report-parts.ts'

const periodsPath = '/console/finance/periods'

const periodBadges: Readonly<Record<PeriodStatus['status'], readonly [string, BadgeTone]>> = {
  closed: ['closed', 'good'],
  over: ['over, not closed', 'warn'],
  'under way': ['under way', 'off'],
}

/** The first day after a month. */
const endDayOf = (period: Period): string => `${nextPeriod(period)}-01`

/** The path of the page with a month's movements. */
const movedPath = (period: Period, isEnded: boolean): string =>
  `/console/finance/balance${queryText({ from: `${period}-01`, ...(isEnded && { to: endDayOf(period) }) })}`

/** The months of the log: whether they are closed, and their movements. */
export const periodPages = ({
  periods,
  closings,
  calendar,
}: {
  readonly periods: Pick<Periods, 'list'>
  readonly closings: Pick<ClosingRuns, 'list'>
  readonly calendar: Calendar
}): readonly ConsolePage[] => [
  financePage({
    path: periodsPath,
    name: 'showPeriods',
    summary: 'The months of the log and which of them are closed',
    show: async (visit) => {
      const months = await listOf(visit, {
        caption: 'Months of the log, newest first',
        rows: async () => (await periods.list(visit.nowMs)).toReversed(),
        empty: 'The log is empty.',
        columns: (_) => [
          nameColumn(`Month (${calendar.zone})`, ({ period, status }) => ({
            text: period,
            href:
              status === 'closed' ? `${periodsPath}/${period}` : movedPath(period, status !== 'under way'),
          })),
          {
            title: 'State',
            place: 'plain',
            cell: ({ period, status }) =>
              html`${stateText(...periodBadges[status])}${status === 'over' ? html` <a href="${periodsPath}/${period}/close">Close ${period}</a>` : null}`,
          },
          timeColumn('Closed', ({ closed }) => closed && isoTime(closed.closedAtMs), { none: 'not yet' }),
          countColumn('Entries', ({ closed }) => closed?.entries ?? null),
          countColumn('Accounts', ({ closed }) => closed?.accounts ?? null),
          {
            title: 'Digest of its balances',
            place: 'minor',
            cell: ({ closed }) => html`<code>${closed?.digest ?? ''}</code>`,
          },
        ],
      })
      const runs = closings.list()
      return {
        title: 'Periods',
        body: html`<p>Closing a month stores a digest of its balances in the log. Its reports can then be reproduced exactly.</p>
${months.body}
${
  runs.length === 0
    ? nothing
    : html`<h2>Recent closings</h2>
${runsTable({
  id: 'closings',
  path: periodsPath,
  caption: 'Closings of this process, newest first',
  runs,
  columns: [
    { title: 'Month', head: true, cell: ({ period }) => period },
    {
      title: 'State',
      cell: (run) => runStateOf(run, { running: foldProgress, done: () => stateText('closed', 'good') }),
    },
  ],
})}`
}`,
        cliEquivalents: [
          'bin/farebox ledger periods',
          'bin/farebox ledger periods MONTH',
          'bin/farebox ledger close --period MONTH',
        ],
        islands: ['live-parts'],
      }
    },
  }),
]

const digestOf = (lines: readonly PeriodLine[]): string => hash('sha256', digestedText({ lines }))

/** The report of a closed month, as it was closed. */
export const closedPeriodPages = ({
  periods,
  journalHead,
  reader,
}: {
  readonly periods: Pick<Periods, 'list'>
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'periodLines'>
}): readonly ConsolePage[] => {
  /** @throws not_found unless the month is closed */
  const reportOf = async ({ params, nowMs }: PersonVisit) => {
    const all = await periods.list(nowMs)
    const at = all.findIndex(({ period }) => period === params.period)
    const found = all[at]
    const closed = found?.closed ?? null
    if (found === undefined || closed === null) throw refuse('not_found', 'no such month is closed')
    const startMs = all[at - 1]?.endMs ?? 0
    const lines = await reader.periodLines(
      { from: { kind: 'time', atMs: startMs }, to: { kind: 'time', atMs: found.endMs } },
      await journalHead(),
    )
    return { period: found.period, closed, lines }
  }
  return [
    financePage({
      path: `${periodsPath}/{period}`,
      name: 'showPeriod',
      summary: 'The report of a closed month',
      show: async (visit) => {
        const { period, closed, lines } = await reportOf(visit)
        const isSame = digestOf(lines) === closed.digest
        const hrefOf = ({ book, account }: AccountSums): string =>
          `/console/finance/account${queryText({ book, name: account, from: `${period}-01`, to: endDayOf(period) })}`
        return {
          title: `Report of ${period}`,
          actions: buttonLink(`${periodsPath}/${period}/report.csv`, 'Download CSV'),
          body: html`${detailsOf([
            ['Closed', timeText(isoTime(closed.closedAtMs))],
            ['Entries', countText(closed.entries, 'entry', 'entries')],
            ['Last event', `${closed.throughOrdinal}, ${closed.throughEventId ?? 'none'}`],
            ['Digest', html`<code>${closed.digest}</code>`],
            [
              'Balances',
              isSame ? stateText('as closed', 'good') : stateText('differ from the closing', 'bad'),
            ],
          ])}
${[...Map.groupBy(lines, ({ book }) => book)].map(
  ([book, accounts]) => html`<h2>Book ${book}</h2>
${sumsTable({
  caption: `Accounts of the book ${book}`,
  rows: [...accounts.map((sums) => sumsRow(sums, hrefOf)), totalRow('Total', accounts)],
  ranged: true,
})}`,
)}
<p><a href="${periodsPath}">All months</a></p>`,
          cliEquivalents: [`bin/farebox ledger periods ${period}`],
        }
      },
    }),
    financePage({
      path: `${periodsPath}/{period}/report.csv`,
      name: 'downloadPeriod',
      summary: 'The report of a closed month as a file',
      show: async (visit) => {
        const { period, lines } = await reportOf(visit)
        return fileOf(`${period}.csv`, reportCsv({ lines }))
      },
    }),
  ]
}

/**
 * How long the answer waits for a closing. A small log is closed in this time; of a long one the list shows progress.
 */
const waitMs = 1_000

type ClosingInput = {
  readonly period: Period
  /** The month and every earlier open one, oldest first. */
  readonly months: readonly Period[]
  readonly fromMs: number
}

/** Closes a month and every earlier open one. */
export const closePeriodPages = ({
  periods,
  journalHead,
  reader,
  closings,
  calendar,
}: {
  readonly periods: Pick<Periods, 'list'>
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'trialBalance'>
  readonly closings: ClosingRuns
  readonly calendar: Calendar
}): readonly ConsolePage[] => {
  /** Null: the month is closed. @throws not_found if the log has no such month */
  const closingInput = async ({ params, nowMs }: PersonVisit): Promise<ClosingInput | null> => {
    const period = parsePeriod(params.period ?? '')
    const all = await periods.list(nowMs)
    const periodStatus = all.find((each) => each.period === period)
    if (period === null || periodStatus === undefined) throw refuse('not_found', 'the log has no such month')
    if (periodStatus.status === 'closed') return null
    const months = all.filter((each) => each.period <= period && each.status !== 'closed')
    return {
      period,
      months: months.map((each) => each.period),
      fromMs: periodStatus.endMs + closingDelayMs,
    }
  }

  const alreadyClosed = ({ params }: PersonVisit) => goTo(periodsPath, `${params.period} is already closed.`)

  const movementsView = async (months: readonly Period[]): Promise<Html> => {
    const first = months[0]!
    const last = months.at(-1)!
    const { books } = await reader.trialBalance(
      {
        from: { kind: 'day', day: `${first}-01` },
        to: { kind: 'day', day: endDayOf(last) },
      },
      await journalHead(),
      { book: serviceBook, depth: 1 },
    )
    if (books.length === 0) return html`<p>Nothing was booked.</p>`
    const hrefOf = ({ book, account }: AccountSums): string =>
      `/console/finance/account${queryText({ book, name: account, from: `${first}-01`, to: endDayOf(last) })}`
    return html`${books.map(({ book, accounts }) =>
      sumsTable({
        caption: `Changes in the book ${book}`,
        rows: [...accounts.map((sums) => sumsRow(sums, hrefOf)), totalRow('Total', accounts)],
        ranged: true,
      }),
    )}`
  }

  return [
    financePage({
      path: `${periodsPath}/{period}/close`,
      name: 'closePeriod',
      summary: 'Closes a month, after a preview of its changes',
      confirmed: true,
      show: async (visit) => {
        const input = await closingInput(visit)
        if (input === null) return alreadyClosed(visit)
        const { period, months, fromMs } = input
        const view = {
          title: `Close ${period}`,
          cliEquivalents: [`bin/farebox ledger close --period ${period}`],
        }
        if (visit.nowMs < fromMs)
          return {
            ...view,
            body: html`<p>${period} is not over. It can be closed from ${timeText(isoTime(fromMs))}, five minutes after its end, when late entries are booked.</p>
<p><a href="${periodsPath}">Back to the months</a></p>`,
          }
        const earlierCount = months.length - 1
        return {
          ...view,
          body: html`<p>This writes the end of ${earlierCount === 0 ? 'the month' : 'each month'} and a digest of all balances to the log. Later entries are booked in the first open month, also fees and payouts of a statement of ${earlierCount === 0 ? 'the month' : 'these months'}: post them first. This cannot be undone.</p>
${earlierCount === 0 ? null : html`<p>Months are closed in order. This also closes ${countText(earlierCount, 'earlier month')}.</p>`}
${tableOf({
  caption: 'Months to close, oldest first',
  rows: months,
  columns: [
    {
      title: 'Month',
      head: true,
      cell: (month) => html`<a href="${movedPath(month, true)}">${month}</a>`,
    },
    { title: 'Ends', cell: (month) => timeText(isoTime(calendar.endOfPeriodMs(month))) },
  ],
})}
<h2>Changes</h2>
${await movementsView(months)}
<p class="soft">In the book of the service. The trial balance of the month shows the books of resellers.</p>
${formOf(visit.form, { submit: `Close ${earlierCount === 0 ? period : `${months[0]} to ${period}`}`, danger: true, back: periodsPath, backLabel: 'Not now' })}`,
        }
      },
      act: {
        once: true,
        run: async (visit) => {
          const input = await closingInput(visit)
          if (input === null) return alreadyClosed(visit)
          const { period, fromMs } = input
          if (visit.nowMs < fromMs) return refused({}, 409)
          const request = { period, by: displayNameOf(visit.visitor), startedAtMs: visit.nowMs }
          const run = closings.start(request, visit.cause)
          if (run === null)
            return refused({ form: 'Another closing is running in this process. Wait for its end.' }, 409)
          await Promise.race([run, sleep(waitMs, undefined, { ref: false })])
          const state = closings.list()[0]?.state
          if (state?.kind === 'failed') return refused({ form: `The closing failed: ${state.why}` }, 409)
          return goTo(
            periodsPath,
            state?.kind === 'done'
              ? `${period} is closed.`
              : `${period} is being closed. Its progress is shown below.`,
          )
        },
      },
    }),
  ]
}
