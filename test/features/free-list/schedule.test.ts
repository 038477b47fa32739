import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  applyCheck,
  type FreeProxyStatus,
  nextCheckDelayMs,
} from '../../../src/features/free-list/endpoint-status.ts'
import type { CheckResult } from '../../../src/features/free-list/probe-port.ts'
import fc from '../../support/fast-check.ts'

const minuteMs = 60_000
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

test('a live endpoint is checked again within 2 to 5 minutes, a dead one within a day, later about once a day', () => {
  fc.assert(
    fc.property(random, fc.integer({ min: 1, max: 5_000 }), (drawn, failures) => {
      const live = nextCheckDelayMs({ state: 'live', failures: 0 }, drawn)
      assert.ok(live >= 2 * minuteMs && live <= 5 * minuteMs)
      for (const state of ['not_answering', 'never_answered'] as const) {
        const pause = nextCheckDelayMs({ state, failures }, drawn)
        assert.ok(pause >= 1.8 * minuteMs && pause <= 24 * 60 * minuteMs)
        assert.ok(nextCheckDelayMs({ state, failures: failures + 1 }, drawn) >= pause)
        if (failures > 11) assert.ok(pause >= 19 * 60 * minuteMs)
      }
    }),
  )
  assert.equal(nextCheckDelayMs({ state: 'not_answering', failures: 1 }, 0.5), 2 * minuteMs)
  assert.equal(nextCheckDelayMs({ state: 'never_answered', failures: 2 }, 0.5), 20 * minuteMs)
})

const untested: FreeProxyStatus = {
  ip: '203.0.113.7',
  port: 8080,
  state: 'untested',
  protocols: 0,
  anonymity: null,
  exitIp: null,
  interceptsTls: null,
  error: null,
  connectMs: null,
  latencies: Buffer.alloc(0),
  hours: Buffer.alloc(0),
  hour: 0,
  checks: 0,
  successes: 0,
  failures: 0,
}
const answered: CheckResult = {
  alive: true,
  protocols: ['http', 'socks5'],
  anonymity: 'anonymous',
  exitIp: '203.0.113.9',
  interceptsTls: null,
  latencyMs: 120,
  connectMs: 40,
  error: null,
  detail: null,
}
const silent: CheckResult = {
  ...answered,
  alive: false,
  protocols: [],
  anonymity: null,
  exitIp: null,
  latencyMs: null,
  connectMs: null,
  error: 'refused',
  detail: 'it refuses connections, or nothing leads there',
}

test('an endpoint that answered once is distinguished from one that never did, and is live when it answers again', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 40 }), (answers) => {
      let [standing, nowMs] = [untested, 1_800_000_000_000]
      for (const [at, answer] of answers.entries()) {
        const checked = applyCheck(standing, answer ? answered : silent, { nowMs, random: 0.5 })
        const before = answers.slice(0, at + 1)
        assert.equal(
          checked.state,
          answer ? 'live' : before.includes(true) ? 'not_answering' : 'never_answered',
        )
        assert.equal(checked.checks, at + 1)
        assert.equal(checked.successes, before.filter(Boolean).length)
        assert.equal(checked.failures, answer ? 0 : before.length - 1 - before.lastIndexOf(true))
        // Its former results stay stored.
        assert.equal(checked.anonymity, before.includes(true) ? 'anonymous' : null)
        standing = checked
        nowMs = checked.nextCheckMs
      }
    }),
  )
})
