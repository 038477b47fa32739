import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groups } from '../../../projections/groups.ts'
import { readPlatformCosts, readScrapeUsage } from '../../../projections/scrape-usage.ts'
import { scraperOf } from '../../../src/domain/scrapers/scraper-table.ts'
import type { ScrapeOutcome } from '../../../src/features/scrapers/provider-port.ts'
import { earnedOf } from '../../../src/features/scrapers/scrape-usage-routes.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { caughtUp, startEngine } from '../../platform/projections/engine.ts'
import { failed, found, scrapeWorld } from './world.ts'

const audience = scraperOf('tiktok', 'audience')!
const everything = { from: null, to: null, limit: 50, offset: 0 } as const

const outcomes: readonly ScrapeOutcome[] = [
  found({ a: 1 }),
  { kind: 'nothing', data: {}, nextCursor: null },
  { kind: 'target_not_found' },
  { kind: 'target_restricted' },
  failed,
  { kind: 'bad_input', details: 'subreddit' },
]

test('usage counts each call once, by its outcome, and the charges equal what left the wallet', async (t) => {
  const world = await scrapeWorld(t, (_, n) => outcomes[n - 1] ?? found({}))
  const { call } = world.here
  const before = await world.wallet()
  await call('call-0')
  await call('again', undefined, { maxAgeDays: 1 })
  for (const n of outcomes.keys()) if (n > 0) await call(`call-${n}`)
  await call('call-0') // a replay is no call
  await call('other', { handle: 'farebox' }, { row: audience })
  const after = await world.wallet()
  const engine = await startEngine(t, world.pool, world.log, groups)
  await caughtUp(engine, world.log)

  const accountId = world.accountId as AccountId
  const byScraper = await readScrapeUsage(world.pool, accountId, { ...everything, groupBy: 'scraper' })
  assert.deepEqual(byScraper.rows, [
    {
      key: 'tiktok/audience',
      ...{ calls: 1, billed: 1, found: 1, empty: 0, notFound: 0, restricted: 0, failed: 0, cached: 0 },
      chargedMicros: 78_000,
    },
    {
      key: 'reddit/subreddit',
      ...{ calls: 7, billed: 2, found: 2, empty: 1, notFound: 1, restricted: 1, failed: 2, cached: 1 },
      chargedMicros: 6_000,
    },
  ])
  assert.equal(byScraper.total, 2)
  assert.equal(byScraper.totals.chargedMicros, before.available - after.available)
  const today = new Date().toISOString().slice(0, 10)
  const { rows: days } = await readScrapeUsage(world.pool, accountId, { ...everything, groupBy: 'day' })
  assert.ok(days.every(({ key }) => key <= today))
  const none = await readScrapeUsage(world.pool, accountId, {
    ...everything,
    to: '2020-01-01',
    groupBy: 'key',
  })
  assert.deepEqual([none.rows, none.total, none.totals.calls], [[], 0, 0])
  // A page past the end still has the total.
  const past = await readScrapeUsage(world.pool, accountId, { ...everything, offset: 5, groupBy: 'scraper' })
  assert.deepEqual([past.rows.length, past.total, past.totals.calls], [0, 2, 8])

  const costs = await readPlatformCosts(world.pool, { from: null, to: null })
  const rows = costs.rows.map((cost) => earnedOf(cost, 1_880))
  assert.deepEqual(
    rows.map(({ platform, credits, costMicros, marginMicros }) => ({
      platform,
      credits,
      costMicros,
      marginMicros,
    })),
    [
      { platform: 'tiktok', credits: 1, costMicros: 1_880, marginMicros: 76_120 },
      { platform: 'reddit', credits: 6, costMicros: 11_280, marginMicros: -5_280 },
    ],
  )
  assert.equal(earnedOf(costs.totals, 1_880).marginMicros, 70_840)
  assert.equal(earnedOf(costs.totals, null).costMicros, null)
  const before2020 = await readPlatformCosts(world.pool, { from: null, to: '2020-01-01' })
  assert.deepEqual([before2020.rows, before2020.totals.calls], [[], 0])
})
