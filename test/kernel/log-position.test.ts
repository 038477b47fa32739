import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parsePosition, positionToken } from '../../src/kernel/log-position.ts'
import fc from '../support/fast-check.ts'

test('a position is read from its token, and from the digits of older versions', () => {
  fc.assert(
    fc.property(fc.maxSafeNat(), (position) => {
      assert.equal(parsePosition(positionToken(position)), position)
      assert.equal(parsePosition(String(position)), position)
    }),
  )
})

test('a token cannot be read as a number, so no client computes with it', () => {
  fc.assert(
    fc.property(fc.maxSafeNat(), (position) => {
      const token = positionToken(position)
      assert.ok(Number.isNaN(Number(token)) && Number.isNaN(Number.parseFloat(token)))
      assert.match(token, /^pos_0_\d+$/)
    }),
  )
})

for (const text of [
  '',
  'soon',
  '-1',
  '1.5',
  '1e3',
  ' 1',
  '0:1284',
  'pos_1_1284',
  'pos_00_1284',
  'pos_0_',
  'pos_0_-1',
  'POS_0_1',
  'pos_0_1 ',
  '9007199254740992',
  'pos_0_9007199254740992',
  '12345678901234567',
])
  test(`${JSON.stringify(text)} is not a position of this log`, () => assert.equal(parsePosition(text), null))
