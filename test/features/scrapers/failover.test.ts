import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod'
import type { ScraperRow } from '../../../src/domain/scrapers/scraper.ts'
import { scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { scraperConfigOf, scraperSettings } from '../../../src/features/scrapers/settings.ts'
import { openScraping, openStandIn, row } from './provider-world.ts'

const profile = row('tiktok/profile')
const hashtags = row('tiktok/popular-hashtags')

/** The rows that each provider has by these settings. */
const configured = (rows?: string) => {
  const values = z.object(scraperSettings).parse({
    FAREBOX_SCRAPERS_KEY: 'first-key',
    FAREBOX_SCRAPERS_SECOND_KEY: 'second-key',
    FAREBOX_SCRAPERS_SECOND_URL: 'https://second.example.com/',
    ...(rows !== undefined && { FAREBOX_SCRAPERS_SECOND_ROWS: rows }),
  })
  return scraperConfigOf(values).providers
}

const openTwo = async (t: Parameters<typeof openStandIn>[0], rows?: string) => {
  const [one, two] = [await openStandIn(t), await openStandIn(t)]
  const [first, second] = configured(rows)
  const made = openScraping(t, [
    { ...first!, baseUrl: one.baseUrl },
    { ...second!, baseUrl: two.baseUrl },
  ])
  return { ...made, one, two, firstUrl: first?.baseUrl, secondUrl: second?.baseUrl }
}

describe('A second provider', () => {
  test('is called for what the first lacks, and for nothing that the first answers', async (t) => {
    const { call, scraping, one, two } = await openTwo(t, '*,tiktok/popular-hashtags')
    assert.equal(scraping.stateOf(hashtags), 'live')
    const taken = await call(hashtags, {})
    assert.equal(taken.outcome.kind, 'found')
    assert.equal(taken.cost.provider, 'second')
    assert.equal((await call(profile, { handle: 'nasa' })).cost.provider, 'first')
    assert.deepEqual([(await one.journal()).total, (await two.journal()).total], [1, 1])
  })

  test('takes over when the first refuses our key, and the caller sees no difference', async (t) => {
    const { call, one, two, registry } = await openTwo(t)
    await one.setCredits('first-key', 0)
    const answers = await Promise.all([call(profile, { handle: 'nasa' }), call(profile, { handle: 'nasa' })])
    for (const { outcome, cost } of answers) {
      assert.equal(outcome.kind, 'found')
      assert.equal(cost.provider, 'second')
    }
    const before = (await one.journal()).total
    await call(profile, { handle: 'nasa' })
    assert.equal((await one.journal()).total, before, 'the first is shut')
    assert.equal((await two.journal()).total, 3)
    assert.match(await registry.metrics(), /farebox_scraper_takeovers_total\{provider="second"\} 3/)
  })

  test('takes over for a 503, and not for an answer that may have been charged', async (t) => {
    const { call, one, two } = await openTwo(t)
    // Both stand-ins fail for this word.
    assert.equal((await call(profile, { handle: 'status-503-1' })).outcome.kind, 'failed')
    assert.deepEqual([(await one.journal()).total, (await two.journal()).total], [2, 2])
    for (const handle of ['html-1', 'reset-1', 'unsaid-1']) {
      const { outcome, cost } = await call(profile, { handle })
      assert.deepEqual([outcome.kind, cost.provider], ['failed', 'first'], handle)
    }
    assert.equal((await two.journal()).total, 2)
  })

  test('has the scrapers that the settings name', async (t) => {
    const served = (rows: string): readonly ScraperRow[] => scrapers.filter(configured(rows)[1]!.serves)
    // Its platform removed the page, so it must be named.
    assert.deepEqual(
      scrapers.filter((each) => !served('*').includes(each)),
      [hashtags],
    )
    assert.ok(!served('tiktok').includes(hashtags))
    assert.deepEqual(new Set(served('youtube').map(({ platform }) => platform)), new Set(['youtube']))
    assert.deepEqual(served('tiktok/popular-hashtags'), [hashtags])
    const { scraping } = await openTwo(t, 'youtube')
    assert.equal(scraping.stateOf(hashtags), 'unavailable')
  })
})

describe('without a provider a scraper is refused, and no call is made', () => {
  test('scraper_unavailable, where another provider is configured', async (t) => {
    const standIn = await openStandIn(t)
    const [first] = configured()
    const { call } = openScraping(t, [{ ...first!, baseUrl: standIn.baseUrl }])
    assert.deepEqual((await call(hashtags, {})).outcome, {
      kind: 'failed',
      code: 'scraper_unavailable',
      retryAfterSeconds: null,
    })
    assert.equal((await standIn.journal()).total, 0)
  })

  test('scraper_unavailable, where none is', async (t) => {
    const { call } = openScraping(t, [])
    assert.deepEqual((await call(profile, { handle: 'nasa' })).outcome, {
      kind: 'failed',
      code: 'scraper_unavailable',
      retryAfterSeconds: null,
    })
  })
})
