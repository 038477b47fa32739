import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bitsOf, protocols, protocolsOf, socketAddressText } from '../../../src/domain/free-list/endpoint.ts'
import {
  addLatency,
  countCheck,
  countsOf,
  type HourCounters,
  medianOf,
  uptimeOf,
} from '../../../src/features/free-list/endpoint-status.ts'
import { type CandidateRules, candidateRefusal } from '../../../src/features/free-list/endpoint-store.ts'
import fc from '../../support/fast-check.ts'

const hourMs = 3_600_000
const never: HourCounters = { bytes: Buffer.alloc(0), hour: 0 }

test('uptime is the share of the checks of this hour and the 23 before it, at any time', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ afterMs: fc.nat(3 * hourMs), success: fc.boolean() }), { maxLength: 60 }),
      fc.nat(30 * hourMs),
      (checks, laterMs) => {
        let nowMs = 1_800_000_000_000
        let counters = never
        const made = checks.map(({ afterMs, success }) => {
          nowMs += afterMs
          counters = countCheck(counters, nowMs, success)
          return { hour: Math.floor(nowMs / hourMs), success }
        })
        nowMs += laterMs
        const counted = made.filter(({ hour }) => hour > Math.floor(nowMs / hourMs) - 24)
        const successes = counted.filter(({ success }) => success).length
        assert.deepEqual(countsOf(counters, nowMs), { checks: counted.length, successes })
        assert.equal(
          uptimeOf(counters, nowMs),
          counted.length === 0 ? null : Math.round((1_000 * successes) / counted.length) / 10,
        )
      },
    ),
  )
})

test('a clock that goes back loses no check', () => {
  const ahead = countCheck(never, 1_000 * hourMs, true)
  assert.deepEqual(countsOf(countCheck(ahead, 998 * hourMs, false), 1_000 * hourMs), {
    checks: 2,
    successes: 1,
  })
})

test('latency is the median of the last ten', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(70_000), { minLength: 1, maxLength: 30 }), (all) => {
      const last = all
        .slice(-10)
        .map((ms) => Math.min(ms, 65_535))
        .sort((a, b) => a - b)
      const [low, high] = [last[(last.length - 1) >> 1]!, last[last.length >> 1]!]
      assert.equal(medianOf(all.reduce(addLatency, Buffer.alloc(0))), Math.round((low + high) / 2))
    }),
  )
  assert.equal(medianOf(Buffer.alloc(0)), null)
})

test('protocols are stored as bits', () => {
  fc.assert(
    fc.property(fc.subarray([...protocols]), (some) => assert.deepEqual(protocolsOf(bitsOf(some)), some)),
  )
  assert.equal(socketAddressText({ ip: '2001:db8::1', port: 80 }), '[2001:db8::1]:80')
})

test('private, reserved, own and mail endpoints are never candidates, and in a sandbox only its proxies are', () => {
  const refusals = (rules: CandidateRules, places: readonly string[]) =>
    places.map((place) => {
      const at = place.lastIndexOf(':')
      return candidateRefusal({ ip: place.slice(0, at), port: Number(place.slice(at + 1)) }, rules)
    })
  const real = { sandbox: false, own: new Set(['8.8.4.4']) }
  const refused = [
    '127.0.0.1:80',
    '10.1.2.3:80',
    '169.254.169.254:80',
    '100.64.0.1:80',
    '0.0.0.0:80',
    '::1:80',
  ]
  assert.deepEqual(
    refusals(real, [...refused, '::ffff:127.80.0.1:80', 'fd00::1:80', '127.80.0.1:80', '224.0.0.1:80']),
    Array(10).fill('private_address'),
  )
  assert.deepEqual(refusals(real, ['8.8.8.8:25', '8.8.4.4:80', '::ffff:8.8.4.4:80', '8.8.8.8:8080']), [
    'blocked_port',
    'own_address',
    'own_address',
    null,
  ])
  assert.deepEqual(
    refusals({ sandbox: true, own: new Set() }, ['127.80.0.1:80', '127.0.0.1:80', '8.8.8.8:80']),
    [null, 'private_address', 'not_of_sandbox'],
  )
})
