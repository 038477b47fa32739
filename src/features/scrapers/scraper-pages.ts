import { Readable } from 'node:stream'
import type pg from 'pg'
import {
  readScrapeUsage,
  type ScrapeUsageSum as ScrapeUsageRow,
  type UsageDimension,
} from '../../../projections/scrape-usage.ts'
import { findScrapers } from '../../domain/scrapers/find-scrapers.ts'
import { rowName } from '../../domain/scrapers/scraper.ts'
import { platforms } from '../../domain/scrapers/scraper-table.ts'
import { dollarsOfMicros, parseDollarsToMicros } from '../../kernel/money.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { html } from '../../platform/ui/html.ts'
import { filterForm, labelled, listPage, pageRows, pagerOf } from '../../platform/ui/list.ts'
import { progressBar } from '../../platform/ui/long-runs.ts'
import { type AccountVisit, accountPage, type ConsolePage, fileOf } from '../../platform/ui/page.ts'
import {
  type Column,
  detailsOf,
  microsColumn,
  nameColumn,
  tableOf,
  textColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import {
  afterText,
  type BadgeTone,
  buttonLink,
  countText,
  idText,
  microsText,
  oneOf,
  queryText,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import type { BatchItems, ShownItem } from './batch-items.ts'
import { itemRequestId, type ScrapeBatches, type ShownBatch, statusOf } from './batch-service.ts'
import { healthText, scraperState } from './playground-pages.ts'
import type { ScraperHealth } from './provider-health.ts'
import type { Scraping } from './provider-port.ts'

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
  return key === '' ? 'in the console' : html`${idText(key, `/console/keys/${key}`)}`
}

/** Scraper usage of an account and its cost. */
export const scrapeUsagePages = ({
  pool,
  bookReads,
}: {
  readonly pool: pg.Pool
  /** Of the books projection, which contains usage. */
  readonly bookReads: Pick<Reads, 'settled'>
}): readonly ConsolePage[] => [
  accountPage({
    path: '/console/scrapers/usage',
    name: 'showScrapeUsage',
    summary: 'Scraper calls and their cost',
    show: async ({ account, query }) => {
      const groupBy = oneOf(dimensions, query.get('by')) ?? 'day'
      const from = dayOf(query.get('from'))
      const to = dayOf(query.get('to'))
      // Only the list of days is unbounded. Its key is the day, so a page starts before the last shown day.
      const before = groupBy === 'day' ? dayOf(query.get('before')) : null
      const endDay = before !== null && (to === null || before < to) ? before : to
      await bookReads.settled(account.accountId)
      const usageQuery = { from, to: endDay, groupBy, limit: pageRows + 1, offset: 0 }
      const { rows, totals } = await readScrapeUsage(pool, account.accountId, usageQuery)
      const visibleRows = rows.slice(0, pageRows)
      const next = groupBy === 'day' && rows.length > pageRows ? (visibleRows.at(-1)?.key ?? null) : null
      const filters = {
        by: { label: 'By', choices: labelled(dimensions, dimensionLabels), standard: 'day' },
        from: { label: 'From', hint: '2026-11-01' },
        to: { label: 'Before', hint: '2026-12-01' },
      }
      const range = { ...(from !== null && { from }), ...(to !== null && { to }) }
      const values = { by: groupBy, ...range }
      const number = (title: string, countOf: (row: ScrapeUsageRow) => number): Column<ScrapeUsageRow> => ({
        title,
        number: true,
        cell: countOf,
      })
      return {
        title: 'Scraper usage',
        actions: buttonLink(root, 'All scrapers'),
        body: html`<p>${countText(totals.calls, 'call')}${endDay === null ? '' : ` before ${endDay}`} cost $${microsText(totals.chargedMicros)}; ${countText(totals.billed, 'call')} of them were charged.</p>
${filterForm(usageRoot, filters, values)}
${tableOf({
  caption: `Usage by ${dimensionLabels[groupBy].toLowerCase()}`,
  rows: visibleRows,
  empty: 'There are no finished calls yet.',
  columns: [
    { title: dimensionLabels[groupBy], head: true, cell: ({ key }) => nameOf(groupBy, key) },
    number('Calls', ({ calls }) => calls),
    { title: 'Charged, USD', number: true, cell: ({ chargedMicros }) => microsText(chargedMicros) },
    number('Found', ({ found }) => found),
    number('Empty', ({ empty }) => empty),
    number('No such target', ({ notFound }) => notFound),
    number('Restricted', ({ restricted }) => restricted),
    number('Failed', ({ failed }) => failed),
    number('Cached', ({ cached }) => cached),
  ],
})}
${pagerOf(usageRoot, values, { before, next })}`,
        cliEquivalents: [
          `curl "$API/scrapes${queryText({ group_by: groupBy, ...range })}" -H "X-API-Key: $KEY"`,
        ],
      }
    },
  }),
]

const root = '/console/scrapers'

/** The scrapers with price and health. */
export const scraperPages = ({
  scraping,
  health,
}: {
  readonly scraping: Pick<Scraping, 'stateOf'>
  readonly health: Pick<ScraperHealth, 'read'>
}): readonly ConsolePage[] => [
  listPage(accountPage, {
    path: '/console/scrapers',
    name: 'showScrapers',
    summary: 'The scrapers with their prices and their health',
    title: 'Scrapers',
    actions: html`${buttonLink(`${root}/usage`, 'Usage')}${buttonLink(batchesPath, 'Batches')}`,
    intro: () => html`<p>You pay for calls with a result, and for calls whose target does not exist.</p>`,
    filters: {
      platform: { label: 'Platform', choices: labelled(platforms) },
      q: { label: 'Words', hint: 'tiktok profile' },
      field: { label: 'Field of the answer', hint: 'email' },
      price: { label: 'Up to, USD', hint: '0.005' },
    },
    caption: 'Scrapers',
    file: 'scrapers',
    rows: async (_, { platform, q, field, price }) => {
      const healthByName = await health.read()
      const maxPriceMicros = parseDollarsToMicros(price ?? '') ?? undefined
      return findScrapers({ words: q, field, maxPriceMicros })
        .filter((row) => platform === undefined || row.platform === platform)
        .map((row) => ({ ...row, health: healthByName.get(rowName(row)) }))
    },
    columns: (_) => [
      {
        title: 'Scraper',
        head: true,
        value: (row) => `${rowName(row)}: ${row.summary}`,
        cell: (row) =>
          html`<a href="${root}/${rowName(row)}">${rowName(row)}</a><br><small>${row.summary}</small>`,
      },
      microsColumn('Per call', ({ priceMicros }) => priceMicros, { place: 'lead' }),
      { title: 'State', place: 'plain', cell: (row) => scraperState(scraping.stateOf(row) === 'live') },
      { title: 'Last 24 hours', place: 'minor', cell: (row) => healthText(row.health) },
      timeColumn('Last success', (row) => row.health?.lastGoodAt ?? null, {
        none: 'not in a week',
        place: 'minor',
      }),
    ],
    empty: 'There are no scrapers.',
    cliEquivalents: () => ['curl $SITE/v1/scrape   # no key needed'],
  }),
]

const batchesPath = '/console/scrapers/batches'

const outcomeLabels: Readonly<Record<NonNullable<ShownItem['outcome']>, readonly [string, BadgeTone]>> = {
  found: ['found', 'good'],
  empty: ['empty', 'good'],
  not_found: ['no such target', 'off'],
  restricted: ['restricted', 'off'],
  failed: ['failed', 'bad'],
  canceled: ['canceled', 'off'],
}

const batchStates: Readonly<Record<ReturnType<typeof statusOf>, readonly [string, BadgeTone]>> = {
  running: ['running', 'warn'],
  canceling: ['canceling', 'warn'],
  finished: ['finished', 'good'],
  canceled: ['canceled', 'off'],
}

const stateOf = (batch: Parameters<typeof statusOf>[0]) => stateText(...batchStates[statusOf(batch)])

const batchCall = (inputs: string): string =>
  `curl $SITE/v1/scrape/batch -H "X-API-Key: $KEY" -H "X-Request-Id: $(uuidgen)" --json '{"platform": "reddit", "operation": "subreddit", "inputs": ${inputs}}'`

const isResult = ({ outcome }: ShownItem): boolean => outcome === 'found' || outcome === 'empty'

/** Batches of scrapes: their progress, cost, and results as a file. */
export const scrapeBatchPages = ({
  batches,
  batchItems,
}: {
  readonly batches: Pick<ScrapeBatches, 'find' | 'result'>
  readonly batchItems: Pick<BatchItems, 'ofAccount'>
}): readonly ConsolePage[] => {
  /** The batch of the path. @throws not_found */
  const batchOf = async ({ account, params }: AccountVisit): Promise<ShownBatch> => {
    const found = await batches.find(account.accountId, params.id ?? '')
    if (found === null)
      throw refuse('not_found', 'there is no such batch, or it finished more than a day ago')
    return found
  }

  /**
   * The results of a batch, one line each as in the API. They are read one after another, so that a long file needs no
   * more memory.
   */
  async function* resultLines({ account }: AccountVisit, { batch, items }: ShownBatch) {
    for (const item of items.filter(isResult)) {
      const call = await batches.result(account.accountId, batch.batch_id, item.n)
      if (call?.bytes) yield `${JSON.stringify(JSON.parse(call.bytes.toString('utf8')))}\n`
    }
  }

  return [
    listPage(accountPage, {
      path: batchesPath,
      name: 'showScrapeBatches',
      summary: 'The readable batches of scrapes',
      crumb: 'Batches',
      title: 'Batches',
      intro: () =>
        html`<p>A batch makes up to 100 calls of one scraper in the background. Send batches by the API. A batch can be read until a day after its end.</p>`,
      caption: 'Readable batches, newest first',
      load: ({ account }, page) => batchItems.ofAccount(account.accountId, page),
      keyOf: ({ created_at: at, batch_id: id }) => afterText(at, id),
      columns: (_) => [
        nameColumn('Batch', ({ batch_id: id, request_id: requestId }) => ({
          text: requestId,
          href: `${batchesPath}/${id}`,
        })),
        {
          title: 'Scraper',
          place: 'plain',
          cell: ({ platform, operation }) =>
            html`<a href="${root}/${platform}/${operation}">${platform}/${operation}</a>`,
        },
        { title: 'State', place: 'plain', cell: stateOf },
        textColumn('Finished', ({ done, inputs }) => `${done} of ${inputs}`),
        microsColumn('Charged', ({ charged_micros: micros }) => micros, { place: 'lead' }),
        timeColumn('Sent', ({ created_at: at }) => at, { place: 'plain' }),
      ],
      empty: 'There are no batches now. The call below sends one.',
      cliEquivalents: () => [batchCall('[{"subreddit": "AskReddit"}, {"subreddit": "node"}]')],
    }),
    accountPage({
      path: `${batchesPath}/{id}`,
      name: 'showScrapeBatch',
      summary: 'One batch of scrapes with its progress and its calls',
      show: async (visit) => {
        const { batch, items } = await batchOf(visit)
        const { batch_id: id, platform, operation, finished_at: finishedAt, inputs } = batch
        const done = items.filter(({ outcome }) => outcome !== null).length
        const charged = items.reduce((sum, { charged_micros: micros }) => sum + micros, 0)
        const results = items.filter(isResult).length
        const batchPath = `${batchesPath}/${id}`
        const progress =
          finishedAt === null
            ? html` ${progressBar(done, inputs, `${done} of ${countText(inputs, 'call')} finished`)} <a href="${batchPath}">Refresh</a>`
            : null
        return {
          title: `Batch of ${platform}/${operation}`,
          body: html`<live-parts><div id="batch" data-live${finishedAt === null ? { html: ' data-runs' } : null}>
${detailsOf([
  ['State', html`${stateOf(batch)}${progress}`],
  ['Batch', idText(id)],
  ['X-Request-Id', idText(batch.request_id)],
  ['API key', html`<a href="/console/keys/${batch.key_id}">${idText(batch.key_id)}</a>`],
  ['Charged', `$${dollarsOfMicros(charged)}`],
  ['Sent', timeText(batch.created_at)],
  ['Finished', timeText(finishedAt, 'not yet')],
])}
${results === 0 ? null : html`<p class="actions">${buttonLink(`${batchPath}/results`, `Download ${countText(results, 'result')}`, 'first')}</p>`}
<h2>Calls</h2>
${tableOf({
  caption: 'Calls, in the order of the inputs',
  rows: items,
  columns: [
    { title: 'Call', head: true, cell: ({ n }) => n },
    {
      title: 'Outcome',
      cell: ({ outcome, problem }) =>
        outcome === null
          ? stateText('running', 'warn')
          : html`${stateText(...outcomeLabels[outcome])}${problem === null ? null : html`<br><small>${problem}</small>`}`,
    },
    { title: 'Charged, USD', number: true, cell: ({ charged_micros: micros }) => dollarsOfMicros(micros) },
    { title: 'X-Request-Id', cell: ({ call }) => idText(itemRequestId(id, call)) },
  ],
})}
</div></live-parts>
<p class="soft">Results are stored for a day after the end of the batch.</p>`,
          islands: ['live-parts'],
          cliEquivalents: [
            `curl $SITE/v1/scrape/batch/${id} -H "X-API-Key: $KEY"`,
            `curl $SITE/v1/scrape/batch/${id}/results/1 -H "X-API-Key: $KEY"`,
            `curl -X DELETE $SITE/v1/scrape/batch/${id} -H "X-API-Key: $KEY"   # cancels it`,
          ],
        }
      },
    }),
    accountPage({
      path: `${batchesPath}/{id}/results`,
      name: 'downloadScrapeBatch',
      summary: 'The results of a batch as JSON lines',
      show: async (visit) => {
        const shownBatch = await batchOf(visit)
        const lines = Readable.from(resultLines(visit, shownBatch), { objectMode: false })
        return fileOf(`${shownBatch.batch.batch_id}.jsonl`, lines, 'text/plain')
      },
    }),
  ]
}
