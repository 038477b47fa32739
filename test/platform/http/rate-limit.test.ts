import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { GcraState, Rate } from '../../../src/platform/http/rate-limiter.ts'
import { createRateLimiter, gcra } from '../../../src/platform/http/rate-limiter.ts'
import fc from '../../support/fast-check.ts'

const rates: fc.Arbitrary<Rate> = fc.record({
  burst: fc.integer({ min: 1, max: 50 }),
  perSecond: fc.integer({ min: 1, max: 200 }),
})

/** Moments of requests: gaps of whole milliseconds, many of them 0. */
const moments = fc
  .array(fc.oneof(fc.constant(0), fc.nat(30), fc.nat(3_000)), { minLength: 1, maxLength: 150 })
  .map((gaps) => {
    let now = 1_000
    return gaps.map((gap) => (now += gap))
  })

const acceptedOf = (times: readonly number[], rate: Rate): readonly number[] => {
  let state: GcraState
  const accepted: number[] = []
  for (const now of times) {
    const result = gcra(state, now, 1, rate)
    if (!result.accepted) continue
    state = result.state
    accepted.push(now)
  }
  return accepted
}

/** A bucket as a slow reader would write it: thousandths of a token, refilled millisecond by millisecond. */
const referenceOf = (times: readonly number[], rate: Rate): readonly number[] => {
  const full = rate.burst * 1000
  let tokens = full
  let at = times[0] ?? 0
  return times.filter((now) => {
    for (; at < now; at++) tokens = Math.min(full, tokens + rate.perSecond)
    if (tokens < 1000) return false
    tokens -= 1000
    return true
  })
}

describe('The rate limit', () => {
  test('accepts in no window more than the burst plus the refill', () => {
    fc.assert(
      fc.property(rates, moments, (rate, times) => {
        const accepted = acceptedOf(times, rate)
        for (let from = 0; from < accepted.length; from++)
          for (let to = from; to < accepted.length; to++) {
            const seconds = ((accepted[to] ?? 0) - (accepted[from] ?? 0)) / 1000
            assert.ok(to - from + 1 <= rate.burst + rate.perSecond * seconds)
          }
      }),
    )
  })

  test('accepts exactly what a bucket with a refill each millisecond accepts', () => {
    fc.assert(
      fc.property(rates, moments, (rate, times) => {
        assert.deepEqual(acceptedOf(times, rate), referenceOf(times, rate))
      }),
    )
  })

  test('returns the exact wait: a millisecond earlier is refused, then it is accepted', () => {
    fc.assert(
      fc.property(rates, moments, (rate, times) => {
        let state: GcraState
        for (const now of times) {
          const result = gcra(state, now, 1, rate)
          if (result.accepted) state = result.state
          else {
            assert.ok(Number.isInteger(result.waitMs) && result.waitMs >= 1)
            assert.equal(gcra(state, now + result.waitMs - 1, 1, rate).accepted, false)
            assert.equal(gcra(state, now + result.waitMs, 1, rate).accepted, true)
          }
        }
      }),
    )
  })

  test('is monotone: an accepted request is also accepted later', () => {
    fc.assert(
      fc.property(
        rates,
        fc.option(fc.nat(10_000_000), { nil: undefined }),
        fc.nat(10_000),
        fc.nat(10_000),
        (rate, state, now, later) => {
          if (gcra(state, now, 1, rate).accepted) assert.ok(gcra(state, now + later, 1, rate).accepted)
        },
      ),
    )
  })

  test('spends nothing on a refusal', () => {
    const rate = { burst: 1, perSecond: 1 }
    const first = gcra(undefined, 0, 1, rate)
    assert.ok(first.accepted)
    for (let now = 0; now < 1_000; now += 100) assert.equal(gcra(first.state, now, 1, rate).accepted, false)
    assert.equal(gcra(first.state, 1_000, 1, rate).accepted, true)
  })

  test('separates subjects and returns the seconds to wait', () => {
    const limiter = createRateLimiter({ burst: 1, perSecond: 2 }, () => 5_000.9)
    assert.deepEqual([limiter.take('a'), limiter.take('a'), limiter.take('b')], [0, 0.5, 0])
  })

  test('returns how many requests remain, and when all may be sent again', () => {
    let nowMs = 0
    const limiter = createRateLimiter({ burst: 10, perSecond: 2 }, () => nowMs)
    assert.deepEqual(limiter.count('a'), { waitS: 0, remaining: 9, fullAfterS: 0.5 })
    assert.deepEqual(limiter.count('a', 4), { waitS: 0, remaining: 1, fullAfterS: 2.5 })
    assert.deepEqual(limiter.count('a', 6), { waitS: 0.5, remaining: 0, fullAfterS: 2.5 })
    nowMs = 2_400
    assert.deepEqual(limiter.count('a'), { waitS: 0, remaining: 8, fullAfterS: 0.6 })
  })
})
