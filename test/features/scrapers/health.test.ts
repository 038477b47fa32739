import assert from 'node:assert/strict'
import { test } from 'node:test'
import { failure } from '../../../src/features/scrapers/call-provider.ts'
import { startScraperHealth } from '../../../src/features/scrapers/provider-health.ts'
import type { ScrapeOutcome, ScrapeResult } from '../../../src/features/scrapers/provider-port.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { row } from './provider-world.ts'

const ended = (outcome: ScrapeOutcome, tookMs = 1): ScrapeResult => ({
  outcome,
  cost: { provider: 'first', creditsCharged: null, tookMs },
})
const found: ScrapeOutcome = { kind: 'found', data: {}, nextCursor: null }
const hourMs = 3_600_000

test('scrapers show their results of the last 24 hours, over all processes', async (t) => {
  const { pool } = await testDatabase(t)
  let nowMs = Date.parse('2026-11-21T10:30:00Z')
  const open = () => {
    const health = startScraperHealth({
      scheduler: testScheduler(),
      pool,
      clock: () => nowMs,
      monotonicMs: () => nowMs,
    })
    t.after(health.stop)
    return health
  }
  const [one, two] = [open(), open()]
  const profile = row('tiktok/profile')
  assert.equal((await one.read()).get('tiktok/profile'), undefined)

  for (let i = 0; i < 90; i += 1) (i % 2 === 0 ? one : two).note(profile, ended(found, 180))
  for (let i = 0; i < 8; i += 1) one.note(profile, ended({ kind: 'target_not_found' }, 2_500))
  two.note(profile, ended(failure('provider_failed'), 30_000))
  two.note(profile, ended(failure('upstream_auth_rejected')))
  // These say nothing of the scraper.
  one.note(profile, ended({ kind: 'bad_input', details: '' }))
  one.note(profile, ended(failure('overloaded', 1)))
  await one.flush()
  await two.flush()
  const expected = {
    calls: 100,
    successShare: 0.98,
    p50Ms: 200,
    p95Ms: 3_000,
    lastGoodAt: '2026-11-21T10:30:00.000Z',
  }
  assert.deepEqual((await two.read()).get('tiktok/profile'), expected)
  // The other process finds it out within half a minute.
  nowMs += 30_000
  assert.deepEqual((await one.read()).get('tiktok/profile'), expected)

  nowMs += 25 * hourMs
  assert.deepEqual((await one.read()).get('tiktok/profile'), {
    calls: 0,
    successShare: null,
    p50Ms: null,
    p95Ms: null,
    lastGoodAt: '2026-11-21T10:30:00.000Z',
  })
  nowMs += 7 * 24 * hourMs
  one.note(row('youtube/video'), ended(found))
  await one.flush()
  assert.deepEqual([...(await one.read()).keys()], ['youtube/video'], 'older hours are deleted')
})
