import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRecentExits } from '../../../src/features/exits/locations.ts'

test('exits are read when a request needs them, at most once a second, and an outage keeps the known ones', async () => {
  let nowMs = 0
  let looks = 0
  let away = false
  const errors: unknown[] = []
  const recent = createRecentExits({
    live: {
      refresh: async () => {
        looks += 1
        if (away) throw new Error('no database')
      },
    },
    maxAgeMs: 1_000,
    monotonicMs: () => nowMs,
    onError: (error) => errors.push(error),
  })
  assert.equal(looks, 0, 'no read before the first call')
  await Promise.all([recent(), recent(), recent()])
  nowMs = 1_000
  await recent()
  assert.equal(looks, 1)
  nowMs = 1_001
  away = true
  await Promise.all([recent(), recent()])
  await recent()
  assert.deepEqual([looks, errors.length], [2, 1])
})
