import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findScrapers } from '../../../src/domain/scrapers/find-scrapers.ts'
import { placedFieldsOf, sampleOf } from '../../../src/domain/scrapers/sample.ts'
import { exampleBody, rowName } from '../../../src/domain/scrapers/scraper.ts'
import { scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { scraperListRoutes } from '../../../src/features/scrapers/scraper-list-routes.ts'
import { micros } from '../../../src/kernel/money.ts'
import { sampleServer } from '../../platform/http/sample.ts'

const routes = scraperListRoutes({
  scraping: { stateOf: () => 'live' },
  health: { read: async () => new Map() },
  monotonicMs: () => performance.now(),
})

test('the limit of the list is named, and shared by its operations', async (t) => {
  const none = { waitS: 0, remaining: 9, fullAfterS: 1 }
  const free = { policy: 'q=10;w=5', count: () => none, take: () => 0 }
  const { client } = await sampleServer(t, {
    routes: scraperListRoutes({
      scraping: { stateOf: () => 'live' },
      health: { read: async () => new Map() },
      monotonicMs: () => 0,
    }),
    limits: { perAddress: free, perKey: free },
  })
  for (let n = 0; n < 60; n += 1) {
    const { status, headers } = await client.get('/v1/scrape/reddit/subreddit')
    assert.deepEqual([status, headers.get('ratelimit-policy')], [200, '"getScraper";q=60;w=30'])
  }
  const { status, headers, body } = await client.get('/v1/scrape/reddit')
  assert.deepEqual([status, headers.get('ratelimit-policy')], [429, '"listPlatformScrapers";q=60;w=30'])
  assert.match(body.error, /RateLimit-Policy names the limit/)
})

type Listed = { readonly path: string }
const pathsOf = (listed: readonly Listed[]): readonly string[] => listed.map(({ path }) => path)

test('the list is searched by words, field and maximum price', async (t) => {
  const { client } = await sampleServer(t, { routes })
  for (const [query, expected] of [
    ['', {}],
    ['?q=tiktok%20profile', { words: 'tiktok profile' }],
    ['?field=follower_count', { field: 'followerCount' }],
    [
      '?q=TRANSCRIPT&field=transcript&maxPriceUsd=0.03',
      { words: 'transcript', maxPriceMicros: micros(30_000) },
    ],
  ] as const) {
    const { body } = await client.get(`/v1/scrape${query}`)
    const found = findScrapers(expected).map((row) => `/v1/scrape/${rowName(row)}`)
    assert.deepEqual([pathsOf(body.scrapers), body.total], [found, found.length], query)
    assert.ok(found.length > 0, query)
  }
  for (const price of ['cheap', '-1', '0.0000001', '']) {
    const { status, body } = await client.get(`/v1/scrape?maxPriceUsd=${price}`)
    assert.deepEqual([status, body.code], [400, 'invalid_parameter'], price)
  }
})

test('each scraper has all fields of its answer and a sample, whose cursor is accepted', async (t) => {
  const { client } = await sampleServer(t, { routes })
  for (const row of scrapers) {
    const { status, body } = await client.get(`/v1/scrape/${rowName(row)}`)
    assert.equal(status, 200, rowName(row))
    assert.deepEqual(body.example, exampleBody(row))
    assert.deepEqual(body.sample.data, sampleOf(row))
    assert.equal(body.sample.nextCursor === null, row.paging === null, rowName(row))
    assert.deepEqual(pathsOf(body.dataFields), pathsOf(placedFieldsOf(row)))
    const { data } = body.sample
    assert.deepEqual(body.fields, Object.keys(Array.isArray(data) ? data[0] : data), rowName(row))
  }
  const { status, body } = await client.get('/v1/scrape/tiktok/nothing')
  assert.deepEqual([status, body.code], [404, 'unknown_scraper'])
})
