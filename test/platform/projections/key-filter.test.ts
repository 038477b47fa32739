import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createKeyFilter } from '../../../src/platform/projections/row-cache.ts'
import fc, { anyChar } from '../../support/fast-check.ts'

test('an added key is always found, in its table', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('orders', 'plans'), fc.string({ unit: anyChar }))),
      fc.constantFrom(8, 1024, 2 ** 16),
      (keys, bits) => {
        const filter = createKeyFilter(bits)
        for (const [table, key] of keys) filter.add(table, key)
        for (const [table, key] of keys) assert.ok(filter.mayHave(table, key))
      },
    ),
  )
})

test('of the keys that were not added, few are reported as added', () => {
  const filter = createKeyFilter(2 ** 16)
  const keys = Array.from({ length: 1_000 }, (_, n) => `ord_${(n * 7919).toString(16).padStart(32, '0')}`)
  for (const key of keys) filter.add('orders', key)
  const share = (of: readonly boolean[]) => of.filter(Boolean).length / of.length
  assert.ok(share(keys.map((key) => filter.mayHave('plans', key))) < 0.02)
  assert.ok(share(keys.map((_, n) => filter.mayHave('orders', `10.0.${n >> 8}.${n & 255}`))) < 0.02)
})
