import type { ReadModel, RowKey, Rows, Table } from '../../../../projections/engine/read-model.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { ScrapeStarted } from '../../../scrapers/calls/events.ts'
import type { ScraperPricesSet } from '../../../scrapers/catalog/events.ts'
import { pricesDigest } from '../../../scrapers/catalog/price.ts'
import { rowName } from '../../../scrapers/catalog/row.ts'
import { scraperPricesStream } from '../../../terms/streams.ts'
import { inDollars, violate } from './violation.ts'

/**
 * How long after the first table a process of an older version, which names none, may still sell calls. Milliseconds.
 */
const olderVersionsMs = 24 * 60 * 60 * 1000

type PriceRow = { digest: string; scraper: string; price_micros: number }
/** When the first table was set, by the times of recording: one row. */
type SinceRow = { name: 'first'; set_ms: number }

const pricesTable: Table<PriceRow> = {
  name: 'audit_scraper_prices',
  columns: { digest: { type: 'text' }, scraper: { type: 'text' }, price_micros: { type: 'bigint' } },
  key: ['digest', 'scraper'],
  indexes: [],
}
const sinceTable: Table<SinceRow> = {
  name: 'audit_scraper_prices_since',
  columns: { name: { type: 'text' }, set_ms: { type: 'bigint' } },
  key: ['name'],
  indexes: [],
}

const isStart = (event: RecordedEvent): event is RecordedEvent<ScrapeStarted> =>
  event.type === 'ScrapeStarted'
const isTable = (event: RecordedEvent): event is RecordedEvent<ScraperPricesSet> =>
  event.type === 'ScraperPricesSet'

const sinceKey: RowKey = { table: sinceTable.name, key: ['first'] }

const setPrices = (event: RecordedEvent<ScraperPricesSet>, rows: Rows): string | null => {
  const { digest, prices } = event.data
  if (rows.get(sinceTable, ['first']) === undefined)
    rows.put(sinceTable, { name: 'first', set_ms: Date.parse(event.metadata.recordedAt) })
  const due = pricesDigest(prices)
  // Under its own digest, so that it cannot take the place of a table that calls name.
  for (const { scraper, priceMicros } of prices)
    rows.put(pricesTable, { digest: due, scraper, price_micros: priceMicros })
  if (event.stream !== scraperPricesStream) return `prices are set in ${scraperPricesStream} alone`
  return due === digest ? null : `it names the digest ${digest}, its prices come to ${due}`
}

const startProblem = (event: RecordedEvent<ScrapeStarted>, rows: Rows): string | null => {
  const { pricesDigest: digest, priceMicros } = event.data
  const scraper = rowName(event.data)
  if (digest === undefined) {
    const since = rows.get(sinceTable, ['first'])
    return since === undefined || Date.parse(event.metadata.recordedAt) <= since.set_ms + olderVersionsMs
      ? null
      : `it names no table of prices, as a version of before ${new Date(since.set_ms).toISOString()} did`
  }
  const price = rows.get(pricesTable, [digest, scraper])
  if (price === undefined) return `no table ${digest} before it has a price of ${scraper}`
  return price.price_micros === priceMicros
    ? null
    : `${scraper} costs ${inDollars(price.price_micros)} by its table, not ${inDollars(priceMicros)}`
}

/**
 * A call costs what the table of prices that it names says; a table is what its digest says, and stands in the log before
 * the calls that name it. What is held and charged for it then follows (`scrapes.ts`).
 */
export const scrapePriceRules: ReadModel = {
  name: 'audit-scrape-prices',
  version: 1,
  tables: [pricesTable, sinceTable],
  takes: { types: new Set(['ScraperPricesSet', 'ScrapeStarted']) },
  reads: (event): RowKey[] => {
    if (isTable(event)) return [sinceKey]
    if (!isStart(event)) return []
    const { pricesDigest: digest } = event.data
    return digest === undefined
      ? [sinceKey]
      : [{ table: pricesTable.name, key: [digest, rowName(event.data)] }]
  },
  apply: (event, rows) => {
    const problem = isTable(event)
      ? setPrices(event, rows)
      : isStart(event)
        ? startProblem(event, rows)
        : null
    if (problem !== null) violate(rows, event, 'scrape-price', problem)
  },
}
