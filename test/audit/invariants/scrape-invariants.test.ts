import { describe, test } from 'node:test'
import { type Cases, changed, dataOf, invariantsFindEach } from '../deeds.ts'

const cases: Cases = {
  'a capture of a scrape that found nothing': [
    (log) => changed(log.first('ScrapeFinished'), { outcome: 'empty' }),
    /scrape-billed|is not charged/,
  ],
  'a charge that is not the price': [
    (log) => changed(log.first('ScrapeFinished'), { amountMicros: 2_999 }),
    /comes to \$0\.003/,
  ],
  'an end of a call that names another account': [
    (log) => changed(log.first('ScrapeFinished'), { accountId: 'acc_other' }),
    /try \S+ is of acc_\w+, not of acc_other/,
  ],
  'a hold of another price': [
    (log) => changed(log.first('ScrapeStarted'), { priceMicros: 5_000 }),
    /is held for a scrape that costs/,
  ],
  'a hold for no scrape': [
    (log) => changed(log.first('FundsHeld'), { holdId: 'scr_none.1' }),
    /no scrape was started for hold/,
  ],
  'a call at another price than its table has': [
    (log) => changed(log.first('ScrapeStarted'), { priceMicros: 5_000 }),
    /tiktok\/profile costs \$0\.003 by its table, not \$0\.005/,
  ],
  'a call of a scraper that its table does not have': [
    (log) => changed(log.first('ScrapeStarted'), { operation: 'videos' }),
    /no table [0-9a-f]{64} before it has a price of tiktok\/videos/,
  ],
  'a call by a table that there is not': [
    (log) => changed(log.first('ScrapeStarted'), { pricesDigest: '00'.repeat(32) }),
    /no table 0{64} before it has a price of tiktok\/profile/,
  ],
  'a call whose table is gone': [
    (log) => ({ remove: log.first('ScraperPricesSet') }),
    /ScrapeStarted.*no table [0-9a-f]{64} before it has a price/,
  ],
  'a call that names no table, long after the first': [
    (log) => {
      const { pricesDigest: _, ...data } = dataOf(log.first('ScrapeStarted'))
      return { add: log.first('ScrapeStarted'), stream: 'scrape-scr_more', data }
    },
    /it names no table of prices, as a version of before 2026-\S+ did/,
  ],
  'prices that are not those of their digest': [
    (log) =>
      changed(log.first('ScraperPricesSet'), { prices: [{ scraper: 'tiktok/profile', priceMicros: 1 }] }),
    /it names the digest [0-9a-f]{64}, its prices come to [0-9a-f]{64}/,
  ],
  'prices in another stream': [
    (log) => ({
      add: log.first('ScraperPricesSet'),
      stream: 'catalog',
      data: dataOf(log.first('ScraperPricesSet')),
    }),
    /prices are set in scrapers alone/,
  ],
}

describe('a scraper call costs the price of its table when it is billed', () => {
  test('other costs are reported', (t) => invariantsFindEach(t, cases))
})
