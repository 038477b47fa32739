import type pg from 'pg'
import {
  readScrapeUsage,
  type ScrapeUsageSum as ScrapeUsageRow,
  type UsageDimension,
} from '../../../projections/scrape-usage.ts'
import { rowName } from '../../domain/scrapers/scraper.ts'
import { platforms, scrapers } from '../../domain/scrapers/scraper-table.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { html } from '../../platform/ui/html.ts'
import { type AccountVisit, accountPage, type ConsolePage, show } from '../../platform/ui/page.ts'
import { filtersOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { countText, microsText, timeText } from '../../platform/ui/text.ts'
import { healthText, scraperState } from './playground-pages.ts'
import type { ScraperHealth } from './provider-health.ts'
import type { Scraping } from './provider-port.ts'

type UsageReads = {
  readonly pool: pg.Pool
  /** Of the books projection, which contains usage. */
  readonly bookReads: Pick<Reads, 'settled'>
}

const usageRoot = '/console/scrapers/usage'
const dimensionLabels: Readonly<Record<UsageDimension, string>> = {
  day: 'Day',
  platform: 'Platform',
  scraper: 'Scraper',
  key: 'API key',
}
const dimensions = Object.keys(dimensionLabels) as readonly UsageDimension[]

const dayOf = (text: string | null): string | null =>
  text !== null && /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) ? text : null

const nameOf = (dimension: UsageDimension, key: string) => {
  if (dimension === 'scraper') return html`<a href="/console/scrapers/${key}">${key}</a>`
  if (dimension !== 'key') return key
  return key === ''
    ? 'in the console'
    : html`<a href="/console/keys/${key}"><code class="id">${key}</code></a>`
}

const usage = async ({ pool, bookReads }: UsageReads, { account, query }: AccountVisit) => {
  const groupBy = dimensions.find((each) => each === query.get('by')) ?? 'day'
  const from = dayOf(query.get('from'))
  const to = dayOf(query.get('to'))
  // Only the list of days is unbounded. Its key is the day, so a page starts before the last shown day.
  const before = groupBy === 'day' ? dayOf(query.get('before')) : null
  const endDay = before !== null && (to === null || before < to) ? before : to
  await bookReads.settled(account.accountId)
  const usageQuery = { from, groupBy, limit: pageRows + 1, offset: 0 }
  const { rows, totals } = await readScrapeUsage(pool, account.accountId, { ...usageQuery, to: endDay })
  const visibleRows = rows.slice(0, pageRows)
  const next = groupBy === 'day' && rows.length > pageRows ? (visibleRows.at(-1)?.key ?? null) : null
  const filter: Readonly<Record<string, string>> = {
    by: groupBy,
    ...(from !== null && { from }),
    ...(to !== null && { to }),
  }
  const number = (title: string, countOf: (row: ScrapeUsageRow) => number) =>
    ({ title, number: true, cell: (row: ScrapeUsageRow) => String(countOf(row)) }) as const
  const search = new URLSearchParams({
    group_by: groupBy,
    ...(from !== null && { from }),
    ...(to !== null && { to }),
  })
  return show({
    title: 'Usage of the scrapers',
    acts: html`<a class="button" href="/console/scrapers">All scrapers</a>`,
    body: html`<p>${countText(totals.calls, 'call')}${endDay === null ? '' : ` before ${endDay}`} cost $${microsText(totals.chargedMicros)}; ${countText(totals.billed, 'call')} of them were charged.</p>
${filtersOf(usageRoot, [
  {
    name: 'by',
    label: 'By',
    value: groupBy,
    choices: dimensions.map((value) => ({ value, label: dimensionLabels[value].toLowerCase() })),
  },
  { name: 'from', label: 'From', value: from ?? '', hint: '2026-11-01' },
  { name: 'to', label: 'Before', value: to ?? '', hint: '2026-12-01' },
])}
${tableOf({
  caption: `Usage by ${dimensionLabels[groupBy].toLowerCase()}`,
  rows: visibleRows,
  empty: html`<p>No call is over yet.</p>`,
  columns: [
    { title: dimensionLabels[groupBy], head: true, cell: ({ key }) => nameOf(groupBy, key) },
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
${pagerOf(usageRoot, filter, { before, next })}`,
    same: [`curl "$API/scrapes?${search}" -H "X-API-Key: $KEY"`],
  })
}

/** Scraper usage of an account and its cost. */
export const scrapeUsagePages = (services: UsageReads): readonly ConsolePage[] => [
  accountPage({
    path: '/console/scrapers/usage',
    name: 'showScrapeUsage',
    summary: 'Calls of scrapers and what they cost',
    show: (visit) => usage(services, visit),
  }),
]

type ScraperReads = {
  readonly scraping: Pick<Scraping, 'stateOf'>
  readonly health: Pick<ScraperHealth, 'read'>
}

const root = '/console/scrapers'

const list = async ({ scraping, health }: ScraperReads, { query }: AccountVisit) => {
  const platform = platforms.find((each) => each === query.get('platform'))
  const text = (query.get('q') ?? '').trim().slice(0, 100)
  const healthByName = await health.read()
  const rows = scrapers.filter(
    (row) =>
      (platform === undefined || row.platform === platform) &&
      `${rowName(row)} ${row.summary}`.toLowerCase().includes(text.toLowerCase()),
  )
  const search = new URLSearchParams(text === '' ? {} : { q: text }).toString()
  return show({
    title: 'Scrapers',
    acts: html`<a class="button" href="${root}/usage">Usage</a> <a class="button" href="${root}/batches">Batches</a>`,
    body: html`<p>${countText(rows.length, 'scraper')}. A call is charged when there is a result, and when there is no such target.</p>
${filtersOf(root, [
  { name: 'q', label: 'Find', value: text, hint: 'such as profile' },
  {
    name: 'platform',
    label: 'Platform',
    value: platform ?? '',
    choices: [{ value: '', label: 'any' }, ...platforms.map((value) => ({ value, label: value }))],
  },
])}
${tableOf({
  caption: 'Scrapers, by name',
  rows,
  empty: html`<p>No scraper fits. <a href="${root}">Show all</a></p>`,
  columns: [
    {
      title: 'Scraper',
      head: true,
      cell: (row) =>
        html`<a href="${root}/${rowName(row)}">${rowName(row)}</a><br><small>${row.summary}</small>`,
    },
    { title: 'A call, USD', number: true, cell: ({ priceMicros }) => dollarsOfMicros(priceMicros) },
    { title: 'State', cell: (row) => scraperState(scraping.stateOf(row) === 'live') },
    { title: 'Last 24 hours', cell: (row) => healthText(healthByName.get(rowName(row))) },
    {
      title: 'Last answered',
      cell: (row) => timeText(healthByName.get(rowName(row))?.lastGoodAt ?? null, 'not in a week'),
    },
  ],
})}`,
    same: [`curl "$SITE/v1/scrape${search === '' ? '' : `?${search}`}"   # no key needed`],
  })
}

/** The scrapers with price and health. */
export const scraperPages = (services: ScraperReads): readonly ConsolePage[] => [
  accountPage({
    path: '/console/scrapers',
    name: 'showScrapers',
    summary: 'The scrapers with their prices and their health',
    nav: { label: 'Scrapers' },
    show: (visit) => list(services, visit),
  }),
]
