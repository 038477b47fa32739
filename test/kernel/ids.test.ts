import assert from 'node:assert/strict'
import { test } from 'node:test'
import { v5 } from 'uuid'
import { type AccountId, deriveId, newId, orderIdOf } from '../../src/kernel/ids.ts'
import fc from '../support/fast-check.ts'

const namespace = '6f1d1b5e-2c63-5b0e-9a57-4e1f6c1f0b11'

test('derived ids are version 5 uuids, equal to those of an independent library', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer())), (parts) => {
      const expected = v5(JSON.stringify(parts), namespace).replaceAll('-', '')
      assert.equal(deriveId('ord', parts), `ord_${expected}`)
    }),
  )
})

test('an id can be derived from a name of any length and script', () => {
  for (const length of [1, 300, 1_003, 1_004, 1_005, 5_000, 300])
    for (const unit of ['a', 'ü', '😀', '\ud800']) {
      const parts = [unit.repeat(length)]
      const expected = v5(Buffer.from(JSON.stringify(parts)), namespace).replaceAll('-', '')
      assert.equal(deriveId('ord', parts), `ord_${expected}`)
    }
})

test('the order of a key never changes: a recorded one is compared', () => {
  assert.equal(orderIdOf('acc_1' as AccountId, 'key'), 'ord_8784036924fd5bd195fc3da0bfda460a')
})

test('lists of parts with the same joined text give different ids', () => {
  assert.notEqual(deriveId('x', ['a', 'bc']), deriveId('x', ['ab', 'c']))
  assert.notEqual(deriveId('x', [1]), deriveId('x', ['1']))
})

test('new ids are all different', () => {
  const ids = Array.from({ length: 10_000 }, () => newId('req'))
  assert.equal(new Set(ids).size, ids.length)
})
