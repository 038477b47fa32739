import { type Decided, decided, type Fold } from '../../kernel/decider.ts'
import { sha256 } from '../../kernel/digest.ts'
import { canonicalJson } from '../../kernel/json-text.ts'
import { scraperPricesStream } from '../../kernel/streams.ts'
import type { ScraperPricesSet } from './price-events.ts'
import { rowName } from './scraper.ts'
import { scrapers } from './scraper-table.ts'

export type ScraperPrices = ScraperPricesSet['data']

/** SHA-256, lower-case hex: the order of fields does not change it, that of the scrapers does. */
export const pricesDigest = (prices: ScraperPrices['prices']): string =>
  sha256(canonicalJson({ prices })).toString('hex')

const pricesOf = (prices: ScraperPrices['prices']): ScraperPrices => ({
  digest: pricesDigest(prices),
  prices,
})

/** What this program charges for calls. */
export const scraperPrices: ScraperPrices = pricesOf(
  scrapers.map((row) => ({ scraper: rowName(row), priceMicros: row.priceMicros })),
)

/** The digest of the table that was set last; null before the first. */
type PricesState = string | null

const pricesFold: Fold<PricesState, ScraperPricesSet> = {
  name: 'scraper-prices',
  version: 1,
  initial: null,
  evolve: (_digest, { data }) => data.digest,
}

/** The stream of the tables, as a command names it. */
export const scraperPricesRef = { stream: scraperPricesStream, fold: pricesFold }

/** Says a table; nothing where it was said last. */
export const decidePrices = (state: PricesState, prices: ScraperPrices): Decided<ScraperPricesSet> =>
  state === prices.digest ? decided() : decided({ type: 'ScraperPricesSet', data: prices })
