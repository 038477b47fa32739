import { placedFieldsOf, sampleOf } from '../../domain/scrapers/sample.ts'
import { exampleBody, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { nextCursorOf } from './call-provider.ts'

/** A complete answer to a call with the scraper's example, with invented data. */
export const sampleAnswer = (row: ScraperRow) => {
  const data = sampleOf(row)
  return {
    platform: row.platform,
    operation: row.operation,
    requestId: 'scrape-1',
    data,
    nextCursor: nextCursorOf(row, exampleBody(row), data),
    billing: { priceUsd: dollarsOfMicros(row.priceMicros), billed: true },
    fetchedAt: '2026-01-31T12:00:00.000Z',
    cached: false,
  }
}

/** Everything about the answer of a scraper. */
export const answerDetails = (row: ScraperRow) => ({
  dataFields: placedFieldsOf(row).map(({ path, type, meaning, unit }) => ({ path, type, meaning, unit })),
  sample: sampleAnswer(row),
})
