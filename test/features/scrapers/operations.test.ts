import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rowName } from '../../../src/domain/scrapers/scraper.ts'
import { scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { operationRoutes, scrapeRoutes } from '../../../src/features/scrapers/routes.ts'

test('only scrapers with cached answers declare cacheMaxAge', () => {
  const declared = scrapeRoutes({ scrapes: {} as never, rate: null })
    .flatMap(operationRoutes)
    .filter(({ query }) => 'cacheMaxAge' in query.shape)
    .map(({ path }) => path)
  const cacheable = scrapers.filter(({ source }) => source.isCacheable)
  assert.deepEqual(
    declared,
    cacheable.map((row) => `/v1/scrape/${rowName(row)}`),
  )
})
