import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBucket } from '../../../src/gateway/admit/budget.ts'
import fc from '../../support/fast-check.ts'

test('a speed allows its bytes per second and a tenth of a second at once, however they are requested', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1_000, max: 1e9 }),
      fc.array(fc.tuple(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 1, max: 1e9 })), {
        minLength: 1,
      }),
      (bytesPerSecond, asks) => {
        let nowMs = 0
        let given = 0
        const bucket = createBucket(() => nowMs, bytesPerSecond)
        for (const [waitMs, bytes] of asks) {
          nowMs += waitMs
          const taken = bucket.take(bytes)
          assert.ok(taken <= bytes && Number.isInteger(taken))
          given += taken
          assert.ok(given <= bytesPerSecond * (0.1 + nowMs / 1000) + 1)
        }
        nowMs += 1_000
        assert.equal(bucket.take(1e12), Math.floor(bytesPerSecond / 10), 'a full bucket')
      },
    ),
  )
})

test('returned bytes can be taken again', () => {
  const bucket = createBucket(() => 0, 10_000)
  assert.equal(bucket.take(800), 800)
  bucket.giveBack(300)
  assert.equal(bucket.take(5_000), 500)
})
