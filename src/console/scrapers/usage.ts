import type pg from 'pg'
import type { Reads } from '../../../projections/engine/reads.ts'
import { html } from '../../platform/pages/html.ts'
import { readScrapeUsage, type ScrapeUsageRow, type UsageDimension } from '../../scrapers/usage/usage.ts'
import { filtersOf, pageRows, pagerOf, tableOf } from '../frame/table.ts'
import { countText, microsText } from '../frame/text.ts'
import { type AccountVisit, accountPage, type ConsolePage, show } from '../pages/page.ts'

export type ScrapeUsageDeps = {
  readonly pool: pg.Pool
  /** Of the books, which usage is read from. */
  readonly bookReads: Pick<Reads, 'settled'>
}

const root = '/console/scrapers/usage'
const words: Readonly<Record<UsageDimension, string>> = {
  day: 'Day',
  platform: 'Platform',
  scraper: 'Scraper',
  key: 'API key',
}
const dimensions = Object.keys(words) as readonly UsageDimension[]

const dayOf = (text: string | null): string | null =>
  text !== null && /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) ? text : null

const nameOf = (dimension: UsageDimension, key: string) => {
  if (dimension === 'scraper') return html`<a href="/console/scrapers/${key}">${key}</a>`
  if (dimension !== 'key') return key
  return key === ''
    ? 'in the console'
    : html`<a href="/console/keys/${key}"><code class="id">${key}</code></a>`
}

const usage = async ({ pool, bookReads }: ScrapeUsageDeps, { account, query }: AccountVisit) => {
  const groupBy = dimensions.find((each) => each === query.get('by')) ?? 'day'
  const from = dayOf(query.get('from'))
  const to = dayOf(query.get('to'))
  // Days alone grow without end, and their key is the day: those of a page come before it.
  const before = groupBy === 'day' ? dayOf(query.get('before')) : null
  const until = before !== null && (to === null || before < to) ? before : to
  await bookReads.settled(account.accountId)
  const asked = { from, groupBy, limit: pageRows + 1, offset: 0 }
  const { rows, totals } = await readScrapeUsage(pool, account.accountId, { ...asked, to: until })
  const shown = rows.slice(0, pageRows)
  const next = groupBy === 'day' && rows.length > pageRows ? (shown.at(-1)?.key ?? null) : null
  const filter: Readonly<Record<string, string>> = {
    by: groupBy,
    ...(from !== null && { from }),
    ...(to !== null && { to }),
  }
  const number = (title: string, of: (row: ScrapeUsageRow) => number) =>
    ({ title, number: true, cell: (row: ScrapeUsageRow) => String(of(row)) }) as const
  const search = new URLSearchParams({
    group_by: groupBy,
    ...(from !== null && { from }),
    ...(to !== null && { to }),
  })
  return show({
    title: 'Usage of the scrapers',
    acts: html`<a class="button" href="/console/scrapers">All scrapers</a>`,
    body: html`<p>${countText(totals.calls, 'call')}${until === null ? '' : ` before ${until}`} cost $${microsText(totals.chargedMicros)}; ${countText(totals.billed, 'call')} of them were charged.</p>
${filtersOf(root, [
  {
    name: 'by',
    label: 'By',
    value: groupBy,
    choices: dimensions.map((value) => ({ value, label: words[value].toLowerCase() })),
  },
  { name: 'from', label: 'From', value: from ?? '', hint: '2026-11-01' },
  { name: 'to', label: 'Before', value: to ?? '', hint: '2026-12-01' },
])}
${tableOf({
  caption: `Usage by ${words[groupBy].toLowerCase()}`,
  rows: shown,
  empty: html`<p>No call is over yet.</p>`,
  columns: [
    { title: words[groupBy], head: true, cell: ({ key }) => nameOf(groupBy, key) },
    number('Calls', ({ calls }) => calls),
    { title: 'Charged, USD', number: true, cell: ({ chargedMicros }) => microsText(chargedMicros) },
    number('Found', ({ found }) => found),
    number('Nothing there', ({ empty }) => empty),
    number('No such target', ({ notFound }) => notFound),
    number('Not shown', ({ restricted }) => restricted),
    number('Failed', ({ failed }) => failed),
    number('Cached', ({ cached }) => cached),
  ],
})}
${pagerOf(root, filter, { before, next })}`,
    same: [`curl "$API/scrapes?${search}" -H "X-API-Key: $KEY"`],
  })
}

/** What an account made of the scrapers, and what it cost. */
export const scrapeUsagePages = (deps: ScrapeUsageDeps): readonly ConsolePage[] => [
  accountPage({
    path: '/console/scrapers/usage',
    name: 'showScrapeUsage',
    summary: 'Calls of scrapers and what they cost',
    show: (visit) => usage(deps, visit),
  }),
]
