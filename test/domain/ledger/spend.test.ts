import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  dropExpiredSpend,
  emptySpend,
  recordSpend,
  type Spend,
  spendFromJson,
  spendToJson,
  spentMicros,
} from '../../../src/domain/ledger/fold.ts'
import fc from '../../support/fast-check.ts'

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs
const keys = ['key_a', 'key_b', 'key_c'] as const

/** Pauses about which the rule turns: within a minute, within a day, about a day, some days. */
const pauseMs = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 0, max: minuteMs }) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 3 * 60 * minuteMs }) },
  { weight: 1, arbitrary: fc.integer({ min: dayMs - 2 * minuteMs, max: dayMs + 2 * minuteMs }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 3 * dayMs }) },
)
const debits = fc.array(
  fc.record({ pauseMs, keyId: fc.constantFrom(...keys), micros: fc.integer({ min: 1, max: 1_000_000 }) }),
  { minLength: 1, maxLength: 60 },
)

test('the spend of a key is the sum of its debits since the minute that began 24 hours ago, whatever was dropped', () => {
  fc.assert(
    fc.property(debits, fc.boolean(), (list, throughJson) => {
      const made: { keyId: string; minute: number; micros: number }[] = []
      let spend: Spend = emptySpend()
      let nowMs = 1_800_000_000_000
      const assertSpent = (atMs: number): void => {
        for (const key of keys) {
          const counted = made.filter(
            ({ keyId, minute }) => keyId === key && (minute + 1) * minuteMs > atMs - dayMs,
          )
          const sum = counted.reduce((total, { micros }) => total + micros, 0)
          assert.equal(spentMicros(spend, key, atMs), sum)
        }
      }
      for (const { pauseMs, keyId, micros } of list) {
        nowMs += pauseMs
        spend = recordSpend(dropExpiredSpend(spend, nowMs), keyId, micros, nowMs)
        made.push({ keyId, minute: Math.floor(nowMs / minuteMs), micros })
        assert.ok(spend.queue.size <= new Set(made.map((debit) => `${debit.keyId} ${debit.minute}`)).size)
        if (throughJson) spend = spendFromJson(JSON.parse(JSON.stringify(spendToJson(spend))))
        for (const laterMs of [0, minuteMs, dayMs - minuteMs, dayMs, dayMs + minuteMs])
          assertSpent(nowMs + laterMs)
      }
    }),
    { numRuns: 300 },
  )
})

test('one debit drops at most two expired minutes, so its cost is bounded', () => {
  let spend = emptySpend()
  for (let n = 0; n < 10; n += 1) spend = recordSpend(spend, 'key_a', 1, n * minuteMs)
  const over = dropExpiredSpend(spend, 2 * dayMs)
  assert.equal(over.queue.size, 8)
  assert.equal(dropExpiredSpend(spend, dayMs), spend)
})

test('a difference between buckets and queue is reported as a bug', () => {
  const spend = recordSpend(emptySpend(), 'key_a', 1, 0)
  const outOfStep = /the spend buckets of key_a are out of step with their queue/
  assert.throws(() => dropExpiredSpend({ ...spend, windows: emptySpend().windows }, 2 * dayMs), outOfStep)
  const later = recordSpend(emptySpend(), 'key_a', 1, minuteMs)
  assert.throws(() => dropExpiredSpend({ ...spend, windows: later.windows }, 2 * dayMs), outOfStep)
  assert.throws(() => spendToJson({ ...spend, windows: later.windows }), outOfStep)
})
