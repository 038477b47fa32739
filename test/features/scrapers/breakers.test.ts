import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createBreaker } from '../../../src/features/scrapers/concurrency-limits.ts'
import { isScrapeFailure } from '../../../src/features/scrapers/provider-port.ts'
import fc from '../../support/fast-check.ts'
import { until } from '../../support/until.ts'
import { openScraping, openStandIn, row } from './provider-world.ts'

const profile = row('tiktok/profile')
const video = row('youtube/video')
const aVideo = { url: 'https://www.youtube.com/watch?v=1' }
const breaker = { windowMs: 30_000, minCalls: 4, failedShare: 0.5, openMs: 15_000 }

describe('No call is made', () => {
  test('to a failing platform, until one call shows that it works again', async (t) => {
    const standIn = await openStandIn(t)
    let nowMs = 0
    const { call, lines } = openScraping(t, [{ name: 'first', baseUrl: standIn.baseUrl }], {
      limits: { breaker },
      monotonicMs: () => nowMs,
    })
    for (let i = 0; i < 4; i += 1) await call(profile, { handle: `html-${i}` })
    assert.equal((await standIn.journal()).total, 4)

    const refused = await call(profile, { handle: 'nasa' })
    assert.deepEqual(refused.outcome, { kind: 'failed', code: 'provider_failed', retryAfterSeconds: 15 })
    assert.equal((await standIn.journal()).total, 4, 'an open breaker makes no call')
    assert.equal((await call(video, aVideo)).outcome.kind, 'found', 'other platforms go on')

    nowMs += 15_000
    assert.equal((await call(profile, { handle: 'html-5' })).outcome.kind, 'failed')
    assert.equal(
      (await call(profile, { handle: 'nasa' })).outcome.kind,
      'failed',
      'the one call failed: open again',
    )
    nowMs += 15_000
    assert.equal((await call(profile, { handle: 'nasa' })).outcome.kind, 'found')
    assert.equal((await call(profile, { handle: 'nasa' })).outcome.kind, 'found')
    assert.ok(lines.some(({ msg }) => msg === 'scrapers are fetched again'))
  })

  test('by more than one call at a time to a platform on probation', async (t) => {
    const standIn = await openStandIn(t)
    let nowMs = 0
    const { call, scraping } = openScraping(t, [{ name: 'first', baseUrl: standIn.baseUrl }], {
      limits: { breaker },
      monotonicMs: () => nowMs,
    })
    for (let i = 0; i < 4; i += 1) await call(profile, { handle: `html-${i}` })
    nowMs += 15_000
    const probe = scraping.admit(profile)
    assert.ok(!isScrapeFailure(probe))
    assert.ok(isScrapeFailure(scraping.admit(profile)))
    // A call that was allowed and never made: the next one may try.
    probe.release()
    const next = scraping.admit(profile)
    assert.ok(!isScrapeFailure(next))
    next.release()
  })

  for (const [word, credits, code] of [
    ['nokey', 5, 'upstream_auth_rejected'],
    ['broke', 0, 'upstream_credits_exhausted'],
  ] as const)
    test(`to a provider that refuses our account (${code}), until its balance is sufficient`, async (t) => {
      const standIn = await openStandIn(t)
      await standIn.setCredits('test-key', 1)
      let nowMs = 0
      const { call, lines } = openScraping(t, [{ name: 'first', baseUrl: standIn.baseUrl }], {
        limits: { shutMs: 45_000 },
        monotonicMs: () => nowMs,
      })
      assert.equal((await call(profile, { handle: `${word}-1` })).outcome.kind, 'failed')
      await standIn.setCredits('test-key', credits)
      const { outcome } = await call(video, aVideo)
      assert.deepEqual(outcome, { kind: 'failed', code, retryAfterSeconds: 45 }, 'every platform is shut')
      assert.equal((await standIn.journal()).total, 1)

      nowMs += 45_000
      await standIn.setCredits('test-key', 5)
      await until(async () => (await call(video, aVideo)).outcome.kind === 'found')
      assert.ok(lines.some(({ level, msg }) => level === 50 && /refuses our account/.test(String(msg))))
    })

  test('while the balance is empty', async (t) => {
    const standIn = await openStandIn(t)
    await standIn.setCredits('test-key', 0)
    let nowMs = 0
    const { call } = openScraping(t, [{ name: 'first', baseUrl: standIn.baseUrl }], {
      limits: { shutMs: 45_000 },
      monotonicMs: () => nowMs,
    })
    const outcomeOf = async () => (await call(profile, { handle: 'nasa' })).outcome
    assert.equal((await outcomeOf()).kind, 'failed')
    nowMs += 45_000
    await outcomeOf()
    await until(async () => {
      const outcome = await outcomeOf()
      return outcome.kind === 'failed' && outcome.retryAfterSeconds === 45
    })
    assert.equal((await standIn.journal()).total, 1)
  })
})

test('the log has one warning when credits run low, and another after they were high', async (t) => {
  const standIn = await openStandIn(t)
  const { call, lines, registry } = openScraping(t, [{ name: 'first', baseUrl: standIn.baseUrl }], {
    limits: { lowCredits: 100 },
  })
  const alarms = () => lines.filter(({ msg }) => /run low/.test(String(msg))).length
  for (const [credits, alarmsThen] of [
    [1_000, 0],
    [50, 1],
    [49, 1],
    [1_000, 1],
    [50, 2],
  ] as const) {
    await standIn.setCredits('test-key', credits)
    await call(profile, { handle: 'nasa' })
    assert.equal(alarms(), alarmsThen, `${credits} credits`)
  }
  assert.match(await registry.metrics(), /farebox_scraper_credits_left\{provider="first"\} 49/)
})

test('a slow platform neither delays another nor uses more than its slots', async (t) => {
  const standIn = await openStandIn(t)
  const { call } = openScraping(t, [{ name: 'first', baseUrl: standIn.baseUrl }], {
    places: { perPlatform: 20, total: 40 },
  })
  const stop = new AbortController()
  const slow = Array.from({ length: 25 }, (_, i) =>
    call(profile, { handle: `slow-20000-${i}` }, { signal: stop.signal }),
  )
  await until(async () => (await standIn.journal()).mostAtOnce >= 20)
  let ended = 0
  for (const each of slow) void each.then(() => ++ended)
  const quick = await Promise.all(Array.from({ length: 15 }, () => call(video, aVideo)))
  assert.ok(quick.every(({ outcome }) => outcome.kind === 'found'))
  assert.ok(ended <= 5, `${ended} of the slow ones ended before them`)
  stop.abort()
  const outcomes = (await Promise.all(slow)).map(({ outcome }) =>
    outcome.kind === 'failed' ? outcome.code : '',
  )
  assert.equal(outcomes.filter((code) => code === 'overloaded').length, 5)
  assert.equal((await standIn.journal()).mostAtOnce <= 35, true)
  // Canceled calls count neither way, and freed their slots.
  assert.equal((await call(profile, { handle: 'nasa' })).outcome.kind, 'found')
})

test('a breaker never opens below its minimum of calls, and then allows one call at a time', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ good: fc.boolean(), afterMs: fc.integer({ min: 0, max: 4_000 }) }), {
        maxLength: 80,
      }),
      (calls) => {
        let nowMs = 0
        const made = createBreaker({ ...breaker, monotonicMs: () => nowMs })
        const seen: { atMs: number; good: boolean }[] = []
        for (const { good, afterMs } of calls) {
          nowMs += afterMs
          const pass = made.enter()
          if (pass === null) {
            assert.ok(made.waitMs() > 0)
            // It was opened by failures, and there were enough of them.
            assert.ok(seen.filter((call) => !call.good).length >= breaker.minCalls * breaker.failedShare)
            continue
          }
          seen.push({ atMs: nowMs, good })
          pass(good)
          if (good && made.waitMs() > 0) assert.ok(seen.some((call) => !call.good))
        }
      },
    ),
  )
})
