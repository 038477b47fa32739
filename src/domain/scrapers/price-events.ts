import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { group, hex, list, micros, text } from '../../kernel/event-fields.ts'

export const scraperPricesSet = defineEvent('ScraperPricesSet', {
  stream: 'scrapers',
  means:
    'What calls of scrapers cost, as a process sells them that wrote this before its first call. Another version of the program may sell by another table beside it.',
  fields: {
    digest: hex(
      32,
      'SHA-256 of the canonical JSON of an object with only `prices`: the `pricesDigest` of calls',
    ),
    prices: list(
      group(
        {
          scraper: text('platform and operation, e.g. `tiktok/profile`'),
          priceMicros: micros('0 or more', 'the price of a billed call'),
        },
        'the price of one scraper',
      ),
      'every scraper, in order of its name',
    ),
  },
})
export type ScraperPricesSet = EventOf<typeof scraperPricesSet>

export const scraperPriceEventDefinitions = [scraperPricesSet] as const
