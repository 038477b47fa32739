import { isoTime } from '../../../kernel/clock.ts'
import { endOfPeriodMs, type Period } from '../../../kernel/months.ts'
import type { Assets } from '../../../platform/ui/assets.ts'
import { type Html, html, nothing } from '../../../platform/ui/html.ts'
import { followingRuns, progressBar } from '../../../platform/ui/long-runs.ts'
import { type ConsolePage, type PersonVisit, personPage, show } from '../../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../../platform/ui/table.ts'
import { type BadgeTone, countText, stateText, timeText } from '../../../platform/ui/text.ts'
import type { PeriodStatus, Periods } from '../period-service.ts'
import { type ClosingRun, type ClosingRuns, textOf } from './question.ts'

export const periodsPath = '/console/finance/periods'

const periodBadges: Readonly<Record<PeriodStatus['status'], readonly [string, BadgeTone]>> = {
  closed: ['closed', 'good'],
  over: ['over, not closed', 'warn'],
  'under way': ['under way', 'off'],
}

/** The path of the page with a month's movements. */
export const movedPath = (period: Period, isEnded: boolean): string =>
  `/console/finance/balance?${new URLSearchParams({ from: `${period}-01`, ...(isEnded && { to: isoTime(endOfPeriodMs(period)).slice(0, 10) }) })}`

const closingState = ({ state }: ClosingRun): Html => {
  switch (state.kind) {
    case 'runs': {
      const { progress } = state
      if (progress === null) return stateText('begins', 'warn')
      return html`${stateText('folds the log', 'warn')} ${progressBar(progress.done, progress.total, `${countText(progress.events, 'event')} so far`)}`
    }
    case 'failed':
      return html`${stateText('broke off', 'bad')}<br><small>${state.why}</small>`
    case 'done':
      return stateText('closed', 'good')
    default:
      return state satisfies never
  }
}

const closingsOf = (closings: readonly ClosingRun[]): Html =>
  closings.length === 0
    ? nothing
    : html`<h2>Closed from here lately</h2>
${followingRuns(
  'closings',
  periodsPath,
  closings.some(({ state }) => state.kind === 'runs'),
  tableOf({
    caption: 'Closings of this process, newest first',
    rows: closings,
    empty: nothing,
    columns: [
      { title: 'Month (UTC)', head: true, cell: ({ period }) => period },
      { title: 'State', cell: closingState },
      { title: 'Began', cell: ({ startedAtMs }) => timeText(isoTime(startedAtMs)) },
      { title: 'By', cell: ({ by }) => by },
    ],
  }),
)}`

type PeriodServices = {
  readonly periods: Pick<Periods, 'list'>
  readonly closings: Pick<ClosingRuns, 'list'>
  readonly island: Assets['island']
}

const list = async ({ periods, closings, island }: PeriodServices, { query, nowMs }: PersonVisit) => {
  const typed = textOf(query, 'before')
  const before = /^\d{4}-\d\d$/.test(typed) ? typed : null
  const all = (await periods.list(nowMs)).toReversed()
  const { rows, next } = pagedOf(
    all.filter(({ period }) => before === null || period < before).slice(0, pageRows + 1),
    ({ period }) => period,
  )
  return show({
    title: 'Periods',
    body: html`<p>A month that is closed keeps a digest of its balances in the log: whatever came out of it can be shown again, cent by cent.</p>
${tableOf({
  caption: 'Months of the log, newest first',
  rows,
  empty: html`<p>Nothing happened yet.</p>`,
  columns: [
    {
      title: 'Month (UTC)',
      head: true,
      cell: ({ period, status }) =>
        html`<a href="${movedPath(period, status !== 'under way')}">${period}</a>`,
    },
    {
      title: 'State',
      cell: ({ period, status }) =>
        html`${stateText(...periodBadges[status])}${status === 'over' ? html` <a href="${periodsPath}/${period}/close">Close ${period}</a>` : null}`,
    },
    { title: 'Closed', cell: ({ closed }) => timeText(closed && isoTime(closed.closedAtMs), 'no') },
    { title: 'Entries', number: true, cell: ({ closed }) => String(closed?.entries ?? '') },
    { title: 'Accounts', number: true, cell: ({ closed }) => String(closed?.accounts ?? '') },
    { title: 'Digest of its balances', cell: ({ closed }) => html`<code>${closed?.digest ?? ''}</code>` },
  ],
})}
${pagerOf(periodsPath, {}, { before, next })}
${closingsOf(closings.list())}`,
    same: [
      'npx farebox ledger periods',
      'npx farebox ledger periods MONTH',
      'npx farebox ledger close --period MONTH',
    ],
    scripts: [island('live-parts')],
  })
}

/** The months of the log: whether they are closed, and their movements. */
export const periodPages = (services: PeriodServices): readonly ConsolePage[] => [
  personPage({
    path: periodsPath,
    name: 'showPeriods',
    summary: 'The months of the log and which of them are closed',
    for: ['finance'],
    nav: { label: 'Periods', group: 'Finance' },
    show: (visit) => list(services, visit),
  }),
]
