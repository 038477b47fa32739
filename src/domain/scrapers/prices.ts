import { type Decided, decided, type Fold } from '../../kernel/decider.ts'
import { sha256 } from '../../kernel/digest.ts'
import { canonicalJson } from '../../kernel/json-text.ts'
import { scraperPricesStream } from '../../kernel/streams.ts'
import type { ScraperPricesSet } from './price-events.ts'
import { rowName } from './scraper.ts'
import { scrapers } from './scraper-table.ts'

export type ScraperPrices = ScraperPricesSet['data']

/** SHA-256, lower-case hex. The order of fields does not change it. The order of the scrapers does. */
export const pricesDigest = (prices: ScraperPrices['prices']): string =>
  sha256(canonicalJson({ prices })).toString('hex')

const pricesOf = (prices: ScraperPrices['prices']): ScraperPrices => ({
  digest: pricesDigest(prices),
  prices,
})

/** The prices of this program. */
export const scraperPrices: ScraperPrices = pricesOf(
  scrapers.map((row) => ({ scraper: rowName(row), priceMicros: row.priceMicros })),
)

/** The digest of the last price table; null before the first. */
type PricesState = string | null

const pricesFold: Fold<PricesState, ScraperPricesSet> = {
  name: 'scraper-prices',
  version: 1,
  initial: null,
  evolve: (_digest, { data }) => data.digest,
}

/** The stream reference of the price tables for a command. */
export const scraperPricesRef = { stream: scraperPricesStream, fold: pricesFold }

/** Records a price table. No event if it is the last one. */
export const decidePrices = (state: PricesState, prices: ScraperPrices): Decided<ScraperPricesSet> =>
  state === prices.digest ? decided() : decided({ type: 'ScraperPricesSet', data: prices })
