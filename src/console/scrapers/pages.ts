import { html } from '../../platform/pages/html.ts'
import { rowName } from '../../scrapers/catalog/row.ts'
import { platforms, scrapers } from '../../scrapers/catalog/table.ts'
import { dollarsOfMicros } from '../../terms/money.ts'
import { filtersOf, tableOf } from '../frame/table.ts'
import { countText, timeText } from '../frame/text.ts'
import { type AccountVisit, accountPage, type ConsolePage, show } from '../pages/page.ts'
import { type ScrapeBatchDeps, scrapeBatchPages } from './batches.ts'
import { type PlaygroundDeps, playgroundPages } from './playground.ts'
import { type ScrapeUsageDeps, scrapeUsagePages } from './usage.ts'
import { healthText, scraperState } from './words.ts'

/** What the pages of scrapers read from and act through. */
export type ScraperPagesDeps = PlaygroundDeps & ScrapeUsageDeps & ScrapeBatchDeps

const root = '/console/scrapers'

const list = async (deps: ScraperPagesDeps, { query }: AccountVisit) => {
  const platform = platforms.find((each) => each === query.get('platform'))
  const text = (query.get('q') ?? '').trim().slice(0, 100)
  const known = await deps.health.read()
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
    { title: 'State', cell: (row) => scraperState(deps.scraping.stateOf(row) === 'live') },
    { title: 'Last 24 hours', cell: (row) => healthText(known.get(rowName(row))) },
    {
      title: 'Last answered',
      cell: (row) => timeText(known.get(rowName(row))?.lastGoodAt ?? null, 'not in a week'),
    },
  ],
})}`,
    same: [`curl "$SITE/v1/scrape${search === '' ? '' : `?${search}`}"   # no key needed`],
  })
}

/** The scrapers with price and health, one of them with a form that calls it, and what was called. */
export const scraperPages = (deps: ScraperPagesDeps): readonly ConsolePage[] => [
  accountPage({
    path: '/console/scrapers',
    name: 'showScrapers',
    summary: 'The scrapers with their prices and their health',
    nav: { label: 'Scrapers' },
    show: (visit) => list(deps, visit),
  }),
  ...scrapeUsagePages(deps),
  ...scrapeBatchPages(deps),
  ...playgroundPages(deps),
]
