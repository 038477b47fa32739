import type { PeriodStanding } from '../../books/periods/service.ts'
import { isoTime } from '../../kernel/clock.ts'
import { html } from '../../platform/pages/html.ts'
import { type Look, stateText } from '../customer/words.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../frame/table.ts'
import { timeText } from '../frame/text.ts'
import { type ConsolePage, type PersonVisit, personPage, show } from '../pages/page.ts'
import { textOf } from './asked.ts'
import type { FinanceDeps } from './deps.ts'

const path = '/console/finance/periods'

const looks: Readonly<Record<PeriodStanding['status'], readonly [string, Look]>> = {
  closed: ['closed', 'good'],
  over: ['over, not closed', 'warn'],
  'under way': ['under way', 'off'],
}

/** The first day of the month after it. */
const endOf = (period: string): string => {
  const [year = 0, month = 0] = period.split('-').map(Number)
  return isoTime(Date.UTC(year, month, 1)).slice(0, 10)
}

const list = async ({ periods }: FinanceDeps, { query, nowMs }: PersonVisit) => {
  const typed = textOf(query, 'before')
  const before = /^\d{4}-\d\d$/.test(typed) ? typed : null
  const all = (await periods.list(nowMs)).toReversed()
  const { rows, next } = pagedOf(
    all.filter(({ period }) => before === null || period < before).slice(0, pageRows + 1),
    ({ period }) => period,
  )
  const changes = (period: string, status: string): string =>
    `/console/finance/balance?${new URLSearchParams({ from: `${period}-01`, ...(status !== 'under way' && { to: endOf(period) }) })}`
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
      cell: ({ period, status }) => html`<a href="${changes(period, status)}">${period}</a>`,
    },
    { title: 'State', cell: ({ status }) => stateText(...looks[status]) },
    { title: 'Closed', cell: ({ closed }) => timeText(closed && isoTime(closed.closedAtMs), 'no') },
    { title: 'Entries', number: true, cell: ({ closed }) => String(closed?.entries ?? '') },
    { title: 'Accounts', number: true, cell: ({ closed }) => String(closed?.accounts ?? '') },
    { title: 'Digest of its balances', cell: ({ closed }) => html`<code>${closed?.digest ?? ''}</code>` },
  ],
})}
${pagerOf(path, {}, { before, next })}`,
    same: [
      'npx farebox ledger periods list',
      'npx farebox ledger periods show MONTH',
      'npx farebox ledger periods close MONTH',
    ],
  })
}

/** The months of the log: which are closed, and what each moved. */
export const periodPages = (deps: FinanceDeps): readonly ConsolePage[] => [
  personPage({
    path,
    name: 'showPeriods',
    summary: 'The months of the log and which of them are closed',
    for: ['finance'],
    nav: { label: 'Periods', group: 'Finance' },
    show: (visit) => list(deps, visit),
  }),
]
